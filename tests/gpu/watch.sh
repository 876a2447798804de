#!/usr/bin/env bash
# `nsa-harness run -- torchrun ...` on a plain DistributedDataParallel script with NCCL on two cards, in six situations, with and without
# the two lines (tests/selftest/watched_runs.py). Four minutes.
#   tests/gpu/watch.sh NSA_HARNESS OUT [ARGUMENT of watched_runs.py]...
# Writes OUT/watched.md, and what each run left, but for its database. Exit: as watched_runs.py.
set -uo pipefail

program=$1
out=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
nvidia-smi --query-gpu=name,driver_version --format=csv > "$out/cards.txt"
python3 -c 'import torch; print("torch", torch.__version__, "NCCL", torch.cuda.nccl.version())' >> "$out/cards.txt"
code=0
python3 "$here/../selftest/watched_runs.py" "$program" "$out" --backend nccl --parallel 4 --rounds 2 "$@" || code=$?
find "$out" -name runs.db -delete
find "$out" \( -name '*.pipe' -o -name 'event' \) -delete
exit "$code"
