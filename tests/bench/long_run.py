#!/usr/bin/env python3
"""What the record of a long run takes, and the memory of the controller while it is made.

    tests/bench/long_run.py NSA_HARNESS [--steps N]... [--layers L] [--python PY] [--keep DIR]

Two ranks of Gloo train a tiny model for N steps (default: 3000) under `nsa-harness run --watch`. Prints, for each N: the bytes of each file
of the run; the events by kind, their number and bytes, where the record can be read; bytes a step and rank, raw and packed; the resident
memory of the controller at ten points of the run, in the judgement, and at most. PY (default: this Python) must have torch. Exit 1: a run
was not GO."""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = """
import os, sys, torch
import torch.distributed as dist
steps, layers = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(layers)))
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
data = torch.Generator().manual_seed(1 + dist.get_rank())
for step in range(1, steps + 1):
    loss = model(torch.randn(2, 4, generator=data)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % max(1, steps // 10) == 0 and dist.get_rank() == 0:
        with open(sys.argv[3], "a") as file:
            file.write(f"{step}\\n")
dist.destroy_process_group()
"""
MB = 1e6


def resident_bytes(pid):
    """Now and at most; nothing of a process that is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            found = dict(line.split(":", 1) for line in file)
        return [1024 * int(found[key].split()[0]) for key in ("VmRSS", "VmHWM")]
    except (OSError, KeyError):
        return None


class Memory:
    """Of one process: what it holds each time that the file of marks gets a line, and at most."""

    def __init__(self, pid, marks):
        self.pid, self.marks = pid, marks
        self.points, self.peak, self.last = [], 0, 0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()

    def look(self):
        while not self.done.wait(0.02):
            held = resident_bytes(self.pid)
            if held is None:
                return
            self.last, self.peak = held
            steps = []
            if os.path.exists(self.marks):
                with open(self.marks, encoding="utf-8") as file:
                    steps = file.read().split()
            for step in steps[len(self.points) :]:
                self.points.append((int(step), self.last))

    def finish(self):
        self.done.set()
        self.thread.join()


def bytes_below(folder):
    sizes = {}
    for at, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(at, name)
            if os.path.isfile(path) and not os.path.islink(path):
                sizes[os.path.relpath(path, folder)] = os.path.getsize(path)
    return sizes


def events_of(packed):
    """By kind: how many, and their bytes."""
    lines = subprocess.run(["zstd", "-dc", packed], capture_output=True, check=True).stdout.splitlines(keepends=True)
    kinds = collections.defaultdict(lambda: [0, 0])
    for line in lines:
        kind = kinds[json.loads(line)["kind"]]
        kind[0] += 1
        kind[1] += len(line)
    return kinds


def run(options, steps, folder):
    script, marks, out = (os.path.join(folder, name) for name in ("train.py", "marks", "runs"))
    with open(script, "w", encoding="utf-8") as file:
        file.write(SCRIPT)
    launch = [options.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    launch += [script, str(steps), str(options.layers), marks]
    words = [options.program, "run", "--watch", "--quiet", "--json", "--out", out, "--db", os.path.join(folder, "runs.db"), "--", *launch]
    begun = time.monotonic()
    process = subprocess.Popen(words, env=dict(os.environ, OMP_NUM_THREADS="1"), stdout=subprocess.PIPE, text=True)
    memory = Memory(process.pid, marks)
    said = json.loads(process.communicate()[0])
    memory.finish()
    print(f"\n{steps} steps, {2 * options.layers} parameters, {time.monotonic() - begun:.0f} s: ", end="")
    with open(said["report"], encoding="utf-8") as file:
        first = file.readline().strip()
    print(first)
    sizes = bytes_below(folder)
    del sizes["train.py"]
    for name, size in sorted(sizes.items(), key=lambda entry: -entry[1])[:8]:
        print(f"  {size / MB:9.3f} MB  {name}")
    total = sum(sizes.values())
    print(f"  {total / MB:9.3f} MB  together; {total / steps / 2:.1f} bytes a step and rank")
    (packed,) = (os.path.join(folder, name) for name in sizes if name.endswith("events.jsonl.zst"))
    try:
        kinds = events_of(packed)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"  its events cannot be counted: {error}")
    else:
        for kind, (count, size) in sorted(kinds.items(), key=lambda entry: -entry[1][1])[:10]:
            print(f"  {count:9} {kind:16} {size / MB:9.3f} MB raw, {size / steps / 2:7.1f} bytes a step and rank")
        raw = sum(size for _, size in kinds.values())
        print(f"  {raw / MB:9.3f} MB raw; {raw / steps / 2:.1f} bytes a step and rank")
    points = "  ".join(f"{step}: {held / MB:.1f}" for step, held in memory.points)
    print(f"  resident memory of the controller in MB, by step: {points}; at most {memory.peak / MB:.1f}")
    return first.startswith("# GO")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--steps", type=int, action="append")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--keep", help="where the runs stay")
    options = parser.parse_args()
    good = True
    for steps in options.steps or [3000]:
        with tempfile.TemporaryDirectory(prefix="nsa_harness_long_") as folder:
            if options.keep:
                folder = os.path.join(options.keep, str(steps))
                os.makedirs(folder)
            good = run(options, steps, folder) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
