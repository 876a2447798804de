#!/usr/bin/env bash
# Runs the GPU profile from an installed tree on a machine with cards and the pinned LibTorch, and leaves reports and logs.
#   tests/gpu/run.sh PREFIX OUT [SECONDS]
# All scenarios in one run, then what that run cannot hold: faults in scenarios that are not their own, Gloo in the place of NCCL,
# and the attention kernels: judged, under compute-sanitizer, and measured (kernels.sh). SECONDS: how long the first may take
# (default 1500). NSA_GPU_PART=all, faults or kernels runs one of the three. NSA_KERNEL_TOOLS: the folder with kernels_check and
# kernels_bench; without it the kernels are left out, which is said.
# NSA_TORCH names the LibTorch; without it, that of `python3 -c "import torch"`. Exit: 0 when every run ended as wanted.
set -uo pipefail

prefix=$1
out=$2
seconds=${3:-1500}
part=${NSA_GPU_PART:-}
gpus=$(nvidia-smi -L | wc -l)
export NSA_TORCH=${NSA_TORCH:-$(python3 -c 'import os, torch; print(os.path.dirname(torch.__file__))')}
harness=$prefix/bin/nsa-harness
scenarios=$prefix/share/nsa-harness/scenarios

mkdir -p "$out"
rm -f "$out/unwanted"

# run NAME WANTED_EXIT ARGS...: one run, its log and report under its name.
run() {
  local name=$1 wanted=$2 code=0 begun=$SECONDS
  shift 2
  timeout --signal=INT --kill-after=30 "$seconds" "$harness" run "$@" --db "$out/$name.db" --out "$out/folders" --profile gpu --json \
    > "$out/$name.json" 2> "$out/$name.log" || code=$?
  echo "$name: exit $code (wanted $wanted) after $((SECONDS - begun)) s" | tee -a "$out/summary.txt"
  [ "$code" -eq "$wanted" ] || touch "$out/unwanted"  # some run in the background
  "$harness" report --db "$out/$name.db" > "$out/$name.md" 2>> "$out/$name.log"
  grep -E '^# (GO|CONDITIONAL GO|NO-GO)' "$out/$name.md" | tee -a "$out/summary.txt"
}

# A fault of FlashAttention-2 in one cell of fa2_on_off: fa2_fault NAME WANTED_EXIT ROUTE ARGS...
fa2_fault() {
  local name=$1 wanted=$2 route=$3
  shift 3
  run "$name" "$wanted" "$scenarios/fa2_on_off.yaml" --only training.seq_len=1024 --only training.precision=bf16 --only "route=$route" "$@"
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv | tee "$out/summary.txt"
"$harness" version | tee -a "$out/summary.txt"
"$harness" doctor | tee -a "$out/summary.txt" || touch "$out/unwanted"

if [ "$part" != faults ] && [ "$part" != kernels ]; then
  # On one card what needs two is an error of its own, said in the report.
  run all "$([ "$gpus" -ge 2 ] && echo 0 || echo 6)" "$scenarios"
fi
if [ "$part" != all ] && [ "$part" != kernels ]; then
  on='{attend_cmp: fa2_varlen, attend_win: fa2}'
  off='{attend_cmp: reference, attend_win: reference}'
  fa2_fault fa2_not_routed 1 "$on" --set fault=flag_not_routed --set fault.form=attend_win &
  fa2_fault fa2_fallback 1 "$on" --set fault=silent_fallback --set fault.form=attend_cmp &
  fa2_fault fa2_or_default 1 "$off" --set fault=flag_or_default --set fault.form=attend_win &
  fa2_fault fa2_uninit 1 '{attend_cmp: fa2, attend_win: fa2_varlen}' \
    --set fault=uninit_buffer --set fault.form=cu_seqlens --set attention.poison=true &
  fa2_fault fa2_poisoned 0 "$on" --set attention.poison=true &
  run gc_bisect_pair 1 "$scenarios/gc_bisect.yaml" --set fault=gc_pair --set 'fault.layers=[3, 8]' &
  CUDA_LAUNCH_BLOCKING=1 run gpu_fault_blocking 0 "$scenarios/faults/gpu_fault.yaml" "$scenarios/faults/gpu_fault_memory.yaml" &
  wait
  if [ "$gpus" -ge 2 ]; then
    run ddp_onestep_gloo 0 "$scenarios/ddp_onestep.yaml" --set parallel.backend=gloo
    for fault in kcmp_detached averaged_twice same_data rank_killed rank_stopped rank_graph first_key; do
      run "fault_$fault" 1 "$scenarios/ddp_onestep.yaml" --set "fault=$fault" --set fault.seed=11
    done
  fi
fi
if [ "$part" != all ] && [ "$part" != faults ]; then
  if [ -n "${NSA_KERNEL_TOOLS:-}" ]; then
    "$(dirname "$0")/kernels.sh" "$NSA_KERNEL_TOOLS" "$out/kernels" || touch "$out/unwanted"
    cat "$out/kernels/kernels.txt" >> "$out/summary.txt"
  else
    echo "kernels: left out: NSA_KERNEL_TOOLS is not set" | tee -a "$out/summary.txt"
  fi
fi
[ ! -e "$out/unwanted" ]
