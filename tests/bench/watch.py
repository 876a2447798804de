#!/usr/bin/env python3
"""What the two lines of nsa_harness.train cost a plain DistributedDataParallel script: processor time of a step.

    tests/bench/watch.py [--steps N] [--width W] [--batch B]
    nsa-harness run -- torchrun --nproc-per-node 2 tests/bench/watch.py [--steps N] ...    # two ranks, and the controller itself

Needs torch in this Python. One process trains three equal models, one step of each in turn: a plain one, a watched one, and a plain
one again (the A/A pair). Plain steps run without watch()'s part in torch.autograd.backward. Steps 21 on count; those that are recorded
whole, every hundredth, are told apart. Prints ratios to the mean of the two plain steps of the same turn: median and quartiles.
"""
import argparse
import atexit
import os
import pathlib
import shutil
import socket
import statistics
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
SETTLED = 20  # steps
EVERY = 100  # of watch()
READS_EVERY_S = 0.05  # the controller, where little is told


class Drain:
    """Takes what a rank tells, as the controller does, and keeps nothing."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="nsa_harness_bench_")
        self.address = os.path.join(self.folder, "ranks.sock")
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(self.address)
        self._socket.listen()
        self._told, self._ends = os.pipe()
        if os.fork() == 0:  # its processor time is none of the training's
            os.close(self._told)
            self._serve()
            os._exit(0)
        os.close(self._ends)

    def _serve(self):
        rank, _ = self._socket.accept()
        total = 0
        while data := rank.recv(1 << 16):
            total += len(data)
            time.sleep(READS_EVERY_S)
        try:
            os.write(self._ends, str(total).encode())
        except BrokenPipeError:
            pass  # nobody asks how much it was


class Training:
    def __init__(self, torch, arguments, watched):
        torch.manual_seed(0)
        width = arguments.width
        layers = [layer for _ in range(12) for layer in (torch.nn.Linear(width, width), torch.nn.LayerNorm(width), torch.nn.GELU())]
        self.torch = torch
        self.model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.x = torch.randn(arguments.batch, width)
        plain = torch.autograd.backward
        if watched:
            import nsa_harness.train

            nsa_harness.train.watch(self.model, self.optimizer, every=EVERY)
        self.backward, torch.autograd.backward = torch.autograd.backward, plain
        self.ms = []
        self.wall_ms = []

    def step(self):
        self.torch.autograd.backward = self.backward
        begun, wall = time.process_time(), time.perf_counter()
        loss = self.model(self.x).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.ms.append(1000 * (time.process_time() - begun))
        self.wall_ms.append(1000 * (time.perf_counter() - wall))


def text_of(ratios):
    low, middle, high = statistics.quantiles([100 * (ratio - 1) for ratio in ratios], n=4, method="inclusive")
    return f"{middle:+.2f} % ({low:+.2f} to {high:+.2f})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=420)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--batch", type=int, default=128)
    arguments = parser.parse_args()
    if "NSA_HARNESS_SOCKET" not in os.environ:
        os.environ.update(NSA_HARNESS_SOCKET=Drain().address, NSA_HARNESS_ORIGIN_MS="0")
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        alone = {} if "RANK" in os.environ else {"init_method": f"file://{folder}/store", "rank": 0, "world_size": 1}
        torch.distributed.init_process_group("gloo", **alone)
        plain, watched, again = (Training(torch, arguments, name == "watched") for name in ("plain", "watched", "again"))
        for _ in range(arguments.steps):
            for training in (plain, watched, again):
                training.step()
    turns = [turn for turn in range(SETTLED, arguments.steps)]
    recorded = [turn for turn in turns if (turn + 1) % EVERY == 0]
    others = [turn for turn in turns if (turn + 1) % EVERY != 0]
    base = {turn: (plain.ms[turn] + again.ms[turn]) / 2 for turn in turns}
    if torch.distributed.get_rank() != 0:
        os._exit(0)
    print(f"a plain step: {statistics.median(base.values()):.2f} ms of processor time")
    print(f"plain / plain               {text_of([again.ms[turn] / plain.ms[turn] for turn in others])}")
    print(f"watched                     {text_of([watched.ms[turn] / base[turn] for turn in others])}")
    extra = statistics.median(watched.ms[turn] - base[turn] for turn in others)
    print(f"watched, median difference  {1000 * extra:+.0f} us")
    walls = {turn: (plain.wall_ms[turn] + again.wall_ms[turn]) / 2 for turn in others}
    print(f"plain / plain, by the clock {text_of([again.wall_ms[turn] / plain.wall_ms[turn] for turn in others])}")
    print(f"watched, by the clock       {text_of([watched.wall_ms[turn] / walls[turn] for turn in others])}")
    if len(recorded) > 1:
        print(f"watched, recorded steps     {text_of([watched.ms[turn] / base[turn] for turn in recorded])}")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
