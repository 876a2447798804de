#!/usr/bin/env bash
# Training steps that the host runs beside the same steps launched as a CUDA graph, on a card: the same losses and parameters to
# the last digit, and how long a step takes. About two minutes.
#   tests/gpu/graph.sh STEP_PROFILE TEXT OUT
# STEP_PROFILE: the built tool; TEXT: a file of some 100 KB to train on. Exit: 0 when every pair agrees and everything ran.
set -uo pipefail

tool=$1
text=$2
out=$3
mkdir -p "$out"
export LD_LIBRARY_PATH=${NSA_TORCH:+$NSA_TORCH/lib:}${LD_LIBRARY_PATH:-}
route=(attention=cuda norm=cuda mlp=lean optimizer=fused)
failed=0

say() { echo "$*" | tee -a "$out/graph.txt"; }

# same NAME BATCH LENGTH ARGS...: 40 steps either way.
same() {
  local name=$1 graph
  shift
  for graph in false true; do
    "$tool" "$@" losses=40 "text=$text" "graph=$graph" > "$out/${name}_$graph.txt" 2>&1 || { say "$name graph=$graph: exit $?"; failed=1; }
  done
  if cmp -s "$out/${name}_false.txt" "$out/${name}_true.txt"; then
    say "$name: the same, $(tail -1 "$out/${name}_true.txt")"
  else
    say "$name: differs"
    diff "$out/${name}_false.txt" "$out/${name}_true.txt" | head -5 | tee -a "$out/graph.txt"
    failed=1
  fi
}

: > "$out/graph.txt"
same lean 4 2048 "${route[@]}"
same mma 1 1024 attention=cuda_mma norm=reference mlp=reference optimizer=fused
for shape in "4 2048" "16 2048" "1 8192"; do
  for graph in false true; do
    # shellcheck disable=SC2086 # two words
    "$tool" $shape "${route[@]}" "graph=$graph" > "$out/profile_${shape// /x}_$graph.txt" 2>&1 || { say "$shape graph=$graph: exit $?"; failed=1; }
    say "graph=$graph: $(head -2 "$out/profile_${shape// /x}_$graph.txt" | tr '\n' ' ')"
  done
done
exit "$failed"
