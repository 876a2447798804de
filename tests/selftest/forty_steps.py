#!/usr/bin/env python3
"""No training is GO for steps that nobody looked at.
    tests/selftest/forty_steps.py NSA_HARNESS [--python PY]
Two ranks train 40 steps over Gloo with the two lines, looked at as by default and in every step: healthy, and with a mistake that begins
after the first ten steps. Prints what each run says. Exit 1: a mistake is GO, or a healthy training is accused. PY (default: this Python)
must have torch."""

import argparse
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

SCRIPT = """
import contextlib, sys, torch
import torch.distributed as dist
import nsa_harness
mistake, every = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
nsa_harness.train.watch(model, optimizer, **({"every": 1} if every else {}))
data = torch.Generator().manual_seed(1 + rank)
for step in range(1, 41):
    unsynced = mistake == "no_sync from step 20" and step >= 20
    with model.no_sync() if unsynced else contextlib.nullcontext():
        loss = model(torch.randn(16, 8, generator=data)).square().mean()
        if mistake == "NaN from step 23" and step >= 23:
            loss = loss * float("nan")
        optimizer.zero_grad()
        loss.backward()
    if not (mistake == "rank 1 skips step 14" and step == 14 and rank == 1):
        optimizer.step()
    if mistake == "weights part after step 14" and step == 14 and rank == 1:
        with torch.no_grad():
            next(model.parameters()).add_(1e-3)
dist.destroy_process_group()
"""
MISTAKES = ("none", "NaN from step 23", "weights part after step 14", "no_sync from step 20", "rank 1 skips step 14")


def run(options, folder, mistake, every):
    path = os.path.join(folder, "train.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(SCRIPT)
    environment = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python"), OMP_NUM_THREADS="1")
    launch = [options.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", path, mistake, str(every)]
    words = [os.path.abspath(options.program), "run", "--quiet", "--json", "--db", os.path.join(folder, "runs.db"), "--", *launch]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=300)
    said = json.loads(done.stdout)
    (case,) = said["cases"]
    with open(said["report"], encoding="utf-8") as file:
        decision = file.readline().removeprefix("# ").split(":")[0]
    return decision, done.returncode, case["outcome"], case["reason"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    wrong = 0
    for mistake in MISTAKES:
        for every in (0, 1):
            with tempfile.TemporaryDirectory() as folder:
                decision, code, outcome, reason = run(options, folder, mistake, every)
            healthy = mistake == "none"
            good = decision == ("GO" if every else "INCONCLUSIVE") if healthy else decision != "GO" and code != 0
            wrong += not good
            print("right" if good else "WRONG", f"{mistake}, {'every step' if every else 'by default'}: {decision}, exit {code}, {outcome}: {reason[:300]}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
