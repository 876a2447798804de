#!/usr/bin/env bash
# Draws of every planted fault and healthy cases, side by side on a machine with many cores.
#   tests/selftest/many.sh NSA_HARNESS OUT [JOBS] [DRAWS] [HEALTHY] [SEED]
# HEALTHY is the number of each kind. OUT gets one log a job and summary.txt. Exit 1 when a healthy case did not pass.
set -uo pipefail
program=$1
out=$2
jobs=${3:-$(($(nproc) / 2))}
draws=${4:-3}
healthy=${5:-120}
seed=${6:-7}
here=${BASH_SOURCE[0]%/*}
mkdir -p "$out"
export OMP_NUM_THREADS=1

names() { find "$here/../../scenarios/faults" -name '*.yaml' -printf '%f\n' | sed 's/[.]yaml//' | sort; }
names | xargs -P "$jobs" -I{} sh -c "python3 '$here/draw_faults.py' '$program' --draws $draws --seed $seed --only {} > '$out/fault_{}.log' 2>&1"
each=$(((healthy + jobs - 1) / jobs))
for kind in attention training; do
  seq 1 "$jobs" | xargs -P "$jobs" -I{} sh -c "python3 '$here/healthy_cases.py' '$program' --kind $kind --count $each --seed {} > '$out/healthy_${kind}_{}.log' 2>&1"
done
{
  cat "$out"/fault_*.log | grep -E '^(ok|BAD) '
  cat "$out"/healthy_*.log | grep -vE ' healthy cases, '
} > "$out/list.txt"
python3 - "$out/list.txt" << 'END' | tee "$out/summary.txt"
import sys
lines = open(sys.argv[1]).read().splitlines()
draws = [line for line in lines if line.startswith(("ok ", "BAD"))]
cases = [line for line in lines if " healthy_" in line]
alarms = [line for line in cases if not line.startswith("PASS ")]
print(f"{len(draws)} draws of faults, {sum(line.startswith('ok ') for line in draws)} with the preferred code at the right site")
print(f"{len(cases)} healthy cases, {len(alarms)} alarms")
for line in [line for line in draws if line.startswith("BAD")] + alarms:
    print(line[:400])
sys.exit(1 if alarms else 0)
END
