#!/usr/bin/env bash
# Runs the GPU profile from an installed tree on a machine with cards and the pinned LibTorch, and leaves reports and logs.
#   tests/gpu/run.sh PREFIX OUT [GPUS]
# NSA_GPU_PART=single or pair runs only what needs one card, or two.
# NSA_TORCH names the LibTorch; without it, that of `python3 -c "import torch"`. Exit: the worst of all runs.
set -uo pipefail

prefix=$1
out=$2
gpus=${3:-$(nvidia-smi -L | wc -l)}
export NSA_TORCH=${NSA_TORCH:-$(python3 -c 'import os, torch; print(os.path.dirname(torch.__file__))')}
harness=$prefix/bin/nsa-harness
scenarios=$prefix/share/nsa-harness/scenarios
db=$out/runs.db
worst=0

mkdir -p "$out"

# run NAME WANTED_EXIT ARGS...: one run, its log and report under its name.
run() {
  local name=$1 wanted=$2 code=0
  shift 2
  timeout 540 "$harness" run "$@" --db "$db" --out "$out/folders" --profile gpu --quiet --json \
    > "$out/$name.json" 2> "$out/$name.log" || code=$?
  echo "$name: exit $code (wanted $wanted)" | tee -a "$out/summary.txt"
  [ "$code" -eq "$wanted" ] || worst=1
  "$harness" report --db "$db" > "$out/$name.md" 2>> "$out/$name.log"
  grep -E '^\*\*(GO|CONDITIONAL GO|NO-GO)' "$out/$name.md" | tee -a "$out/summary.txt"
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv | tee "$out/summary.txt"
"$harness" version | tee -a "$out/summary.txt"
"$harness" doctor | tee -a "$out/summary.txt" || worst=1

if [ "${NSA_GPU_PART:-all}" != pair ]; then
  run gc_bisect 0 "$scenarios/gc_bisect.yaml"
  run gc_bisect_pair 1 "$scenarios/gc_bisect.yaml" --set fault=gc_pair --set 'fault.layers=[3, 8]'
  for name in long_rows causality precision sb_sweep layer_scaling selection_ties backend_parity decode branch_isolation fa2_on_off route_refused throughput long_context soak train_curve; do
    run "$name" 0 "$scenarios/$name.yaml"
  done
  # FlashAttention-2's own faults, each where its kernels would have run.
  one_cell=(--only training.seq_len=1024 --only training.precision=bf16)
  on='{attend_cmp: fa2_varlen, attend_win: fa2}'
  off='{attend_cmp: reference, attend_win: reference}'
  run fa2_not_routed 1 "$scenarios/fa2_on_off.yaml" "${one_cell[@]}" --only "route=$on" --set fault=flag_not_routed --set fault.form=attend_win
  run fa2_fallback 1 "$scenarios/fa2_on_off.yaml" "${one_cell[@]}" --only "route=$on" --set fault=silent_fallback --set fault.form=attend_cmp
  run fa2_or_default 1 "$scenarios/fa2_on_off.yaml" "${one_cell[@]}" --only "route=$off" --set fault=flag_or_default --set fault.form=attend_win
  run fa2_uninit 1 "$scenarios/fa2_on_off.yaml" "${one_cell[@]}" --only "route={attend_cmp: fa2, attend_win: fa2_varlen}" \
    --set fault=uninit_buffer --set fault.form=cu_seqlens --set attention.poison=true
  run fa2_poisoned 0 "$scenarios/fa2_on_off.yaml" "${one_cell[@]}" --set attention.poison=true
fi
echo "compute-sanitizer: not run: this project has no kernel of its own yet" | tee -a "$out/summary.txt"
if [ "${NSA_GPU_PART:-all}" = single ]; then exit "$worst"; fi

if [ "$gpus" -ge 2 ]; then
  run ddp_onestep 0 "$scenarios/ddp_onestep.yaml"
  run ddp_static_graph 0 "$scenarios/ddp_static_graph.yaml"
  run loader 0 "$scenarios/loader.yaml"
  run ddp_onestep_gloo 0 "$scenarios/ddp_onestep.yaml" --set parallel.backend=gloo
  for fault in kcmp_detached averaged_twice same_data rank_killed rank_stopped rank_graph first_key; do
    run "fault_$fault" 1 "$scenarios/ddp_onestep.yaml" --set "fault=$fault" --set fault.seed=11
  done
else
  echo "ddp_onestep needs 2 GPUs, found $gpus" | tee -a "$out/summary.txt"
  worst=1
fi
exit "$worst"
