#!/usr/bin/env python3
"""What the two lines of nsa_harness.train cost a plain DistributedDataParallel script: processor time of a step.

    tests/bench/watch.py [--rounds N] [--width W] [--batch B]

Needs torch in this Python. Every round launches the script without the lines' address, with it, and without it again (the A/A pair),
each as a process of its own, in an order that is turned from round to round. Steps 21 to 220 count: two of them are recorded whole,
as every hundredth is, which the mean of the steps shows and their median does not. Prints the ratios to the mean of the round's two
plain times: median and quartiles.
"""
import argparse
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = """
import os, sys, time
import torch
import torch.distributed as dist
import nsa_harness.train
width, batch = int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)
torch.manual_seed(0)
layers = [layer for _ in range(12) for layer in (torch.nn.Linear(width, width), torch.nn.LayerNorm(width), torch.nn.GELU())]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
nsa_harness.train.watch(model, optimizer)
marks = []
for step in range(1, 222):
    if step > 20: marks.append(time.process_time())
    x = torch.randn(batch, width)
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
steps = sorted(b - a for a, b in zip(marks, marks[1:]))
print(steps[100] * 1000, (marks[-1] - marks[0]) / 200 * 1000, flush=True)
os._exit(0)
"""


class Drain:
    """Takes what a rank tells, as the controller does, and keeps nothing."""

    def __init__(self):
        self.address = f"nsa_harness_bench_{os.getpid()}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind("\0" + self.address)
        self._socket.listen()
        self.told = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            rank, _ = self._socket.accept()
            while data := rank.recv(1 << 16):
                self.told += len(data)


def launch(drain, watched, arguments):
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"))
    if watched:
        environment.update(NSA_HARNESS_SOCKET=drain.address, NSA_HARNESS_ORIGIN_MS="0")
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-c", SCRIPT, f"{folder}/store", str(arguments.width), str(arguments.batch)]
        told = subprocess.run(words, env=environment, check=True, capture_output=True, text=True, timeout=300)
    return [float(word) for word in told.stdout.split()]


def text_of(ratios):
    low, middle, high = statistics.quantiles([100 * (ratio - 1) for ratio in ratios], n=4, method="inclusive")
    return f"{middle:+.2f} % ({low:+.2f} to {high:+.2f})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--batch", type=int, default=128)
    arguments = parser.parse_args()
    drain = Drain()
    names = ["plain", "watched", "plain again"]
    times = {name: [] for name in names}
    for number in range(arguments.rounds):
        for name in names[number % 3:] + names[:number % 3]:
            times[name].append(launch(drain, name == "watched", arguments))
    if drain.told == 0:
        sys.exit("the watched script told nothing")
    for what, place in (("median step", 0), ("mean step", 1)):
        of = {name: [launched[place] for launched in times[name]] for name in names}
        plain = [(a + b) / 2 for a, b in zip(of["plain"], of["plain again"])]
        print(f"{what}: plain {statistics.median(plain):.2f} ms")
        print(f"  plain / plain  {text_of([b / a for a, b in zip(of['plain'], of['plain again'])])}")
        print(f"  watched        {text_of([a / b for a, b in zip(of['watched'], plain)])}")


if __name__ == "__main__":
    main()
