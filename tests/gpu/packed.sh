#!/usr/bin/env bash
# Packed documents on a card: profile gpu of scenarios/packed.yaml, the kernels beside the reference, bf16 and fp16, judged by the
# oracle. Under a minute.
#   tests/gpu/packed.sh PREFIX OUT
# PREFIX: an installed tree. NSA_TORCH names the LibTorch; without it, that of `python3 -c "import torch"`. Exit: 0 when every case
# passed.
set -uo pipefail

prefix=$1
out=$2
mkdir -p "$out"
export NSA_TORCH=${NSA_TORCH:-$(python3 -c 'import os, torch; print(os.path.dirname(torch.__file__))')}
harness=$prefix/bin/nsa-harness
scenario=$prefix/share/nsa-harness/scenarios/packed.yaml

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1 | tee "$out/packed.txt"
code=0
timeout --signal=INT --kill-after=10 "${NSA_GPU_SECONDS:-120}" "$harness" run "$scenario" --profile gpu --db "$out/packed.db" --out "$out/folders" \
  > "$out/packed.log" 2>&1 || code=$?
cat "$out/packed.log"
"$harness" report --db "$out/packed.db" > "$out/packed.md"
grep -E '^# ' "$out/packed.md" | head -1
echo "packed: exit $code (wanted 0)" | tee -a "$out/packed.txt"
exit "$code"
