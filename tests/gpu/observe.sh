#!/usr/bin/env bash
# Wall time of a step at observe 0 and 1 beside the same steps without the harness, on one card, with an A/A pair. Some ten minutes.
#   tests/gpu/observe.sh PREFIX OUT [ARGUMENT of observe.py]...
# PREFIX: the installed tree, with the built tool beside the program: `cmake --build build/full --target observe_cost`, then copy
# build/full/bin/observe_cost to PREFIX/bin. Level 2 is left out: of this model it records gigabytes a step. Writes OUT/observe.md. Exit: 0 when everything ran.
set -euo pipefail

prefix=$1
out=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
export LD_LIBRARY_PATH=${NSA_TORCH:+$NSA_TORCH/lib:}${LD_LIBRARY_PATH:-}
# A step of some size, by the fastest implementations: what is watched then waits for the host, not the host for it.
exec python3 "$here/../bench/observe.py" "$prefix/bin/nsa-harness" "$prefix/bin/observe_cost" "$out" --device cuda --levels 0,1 --rounds 15 --steps 63 \
  --set 'model={use: m7c_125m}' --set training.seq_len=2048 --set training.batch_size=4 --set training.precision=bf16 \
  --set 'route={attention: auto, norm: auto, mlp: auto, optimizer: auto}' "$@"
