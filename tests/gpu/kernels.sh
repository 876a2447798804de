#!/usr/bin/env bash
# Judges and measures the attention kernels on a card, in about two minutes.
#   tests/gpu/kernels.sh TOOLS OUT
# TOOLS holds kernels_check and kernels_bench; one of them may be missing, which is said. NSA_TORCH names the LibTorch that
# kernels_bench is linked with. Exit: 0 when what was there ran and every case passed.
set -uo pipefail

tools=$1
out=$2
mkdir -p "$out"
export LD_LIBRARY_PATH=${NSA_TORCH:+$NSA_TORCH/lib:}${LD_LIBRARY_PATH:-}
failed=0

say() { echo "$*" | tee -a "$out/kernels.txt"; }

# The measurements come first: nothing else runs on the card meanwhile.
bench() {
  [ -x "$tools/kernels_bench" ] || { say "kernels_bench: not there"; return; }
  "$tools/kernels_bench" --benchmark_out="$out/kernels_bench.json" --benchmark_out_format=json > "$out/kernels_bench.txt" 2>&1 \
    || { say "kernels_bench: exit $?"; failed=1; }
}

check() {
  [ -x "$tools/kernels_check" ] || { say "kernels_check: not there"; return; }
  local part family pids=()
  for part in smoke edges varlen patterns repeats pairs product large; do
    for family in auto mma; do
      [ "$part-$family" != large-mma ] || continue
      "$tools/kernels_check" --parts "$part" --family "$family" --seconds 120 --json "$out/check_${part}_$family.json" \
        > "$out/check_${part}_$family.txt" 2>&1 &
      pids+=($!)
    done
  done
  local pid
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
  for part in "$out"/check_*.txt; do say "$(basename "$part" .txt): $(tail -1 "$part")"; done
}

sanitize() {
  if ! command -v compute-sanitizer > /dev/null || [ ! -x "$tools/kernels_check" ]; then
    say "compute-sanitizer: not run"
    return
  fi
  local tool code
  for tool in memcheck racecheck initcheck synccheck; do
    code=0
    compute-sanitizer --tool "$tool" --error-exitcode 1 "$tools/kernels_check" --parts smoke --only "smoke 2" \
      > "$out/$tool.txt" 2>&1 || code=$?
    say "$tool: $(tail -1 "$out/$tool.txt")"
    [ "$code" -eq 0 ] || failed=1
  done
}

: > "$out/kernels.txt"
say "$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1)"
bench
check
sanitize
exit "$failed"
