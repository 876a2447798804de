#!/usr/bin/env python3
"""On a card: fingerprint.ptx gives the numbers of libnsa_fingerprint.so, and what the two lines cost a step.
    NSA_HARNESS_FINGERPRINT=build/full/lib/libnsa_fingerprint.so tests/gpu/fingerprint.py OUT [--rounds N]
    ... torchrun --nproc-per-node 2 tests/gpu/fingerprint.py OUT    # a card for each rank, DistributedDataParallel over NCCL
Tensors of drawn sizes, types and places (they begin at any element), some with an infinity or a NaN. Then the time of one launch over
250 MB, and a training step of a model of 125 million parameters in bfloat16 with and without the two lines, in turn, beside a second plain
one. Writes OUT/fingerprint.json. Exit 1: a number differs."""

import argparse
import ctypes
import json
import os
import pathlib
import random
import socket
import statistics
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import torch  # noqa: E402

from nsa_harness.cards import Cards  # noqa: E402
from nsa_harness.fingerprints import NOT_TAKEN, TYPES, WORDS, Summary, library  # noqa: E402

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.complex64)
DEVICE = int(os.environ.get("LOCAL_RANK", "0"))


def table_of(tensors):
    table = (ctypes.c_uint64 * (4 * len(tensors)))()
    for index, tensor in enumerate(tensors):
        row = (0, 0, NOT_TAKEN) if tensor is None else (tensor.data_ptr(), tensor.nbytes, TYPES.get(str(tensor.dtype)[6:], 0))
        table[4 * index : 4 * index + 3] = row
    return table


def here(lib, tensors):
    results, summary = (ctypes.c_uint64 * (WORDS * len(tensors)))(), Summary()
    lib.nsa_fingerprints(table_of(tensors), len(tensors), 0, None, results, ctypes.addressof(summary), 0)
    return results


def on_card(lib, cards, tensors):
    table = table_of(tensors)
    chunks = lib.nsa_chunks(table, len(tensors))
    address, _held = cards.sent(DEVICE, table, len(tensors))
    room = cards.room(DEVICE, 8 * WORDS * chunks)
    cards.launch(DEVICE, torch.cuda.current_stream().cuda_stream, address, len(tensors), chunks, room[1])
    torch.cuda.synchronize()
    results = (ctypes.c_uint64 * (WORDS * len(tensors)))()
    lib.nsa_collect(table, len(tensors), room[1], results, 1)
    cards.give_back(room)
    return results


def real(bits):
    return ctypes.c_double.from_buffer_copy(ctypes.c_uint64(bits)).value


def drawn(draw):
    """A tensor on the card that begins at some element of a larger one."""
    dtype = draw.choice(DTYPES)
    count = draw.choice((0, 1, draw.randrange(20), draw.randrange(3000), 1024 * draw.randrange(1, 40), draw.randrange(700_000)))
    begin = draw.choice((0, 0, draw.randrange(17)))
    if dtype.is_floating_point or dtype.is_complex:
        scale = draw.choice((0.0, 1e-30, 1e-3, 1.0, 1.0, 1.0, 1e4))
        whole = (torch.randn(begin + count, device="cuda", dtype=torch.float32) * scale).to(dtype)
        for value in draw.choice(((), (), (), (float("inf"),), (float("nan"),), (-float("inf"), float("nan")))):
            if count:
                whole[begin + draw.randrange(count)] = value
    else:
        whole = torch.randint(0, 200, (begin + count,), device="cuda").to(dtype)
    return whole[begin:]


def equal(lib, cards, rounds, draw):
    """Departures, as text."""
    wrong, looked = [], 0
    for number in range(rounds):
        tensors = [None if draw.random() < 0.05 else drawn(draw) for _ in range(draw.randrange(1, 60))]
        found = on_card(lib, cards, tensors)
        wanted = here(lib, [tensor if tensor is None else tensor.cpu() for tensor in tensors])
        for index, tensor in enumerate(tensors):
            a, b = wanted[WORDS * index : WORDS * index + WORDS], found[WORDS * index : WORDS * index + WORDS]
            x, y = real(a[2]), real(b[2])
            close = x == y or (x != x and y != y) or abs(x - y) <= 1e-5 * abs(x)
            looked += 1
            if a[:2] != b[:2] or not close:
                what = "none" if tensor is None else f"{tensor.dtype} {tensor.numel()} at {tensor.data_ptr() % 16}"
                wrong.append(f"round {number}, tensor {index}, {what}: wanted {a[:2]} {x}, found {b[:2]} {y}")
    return wrong, looked


def time_of_launch(lib, cards):
    """Milliseconds of one launch, and GB/s, over 250 MB in bfloat16 and float32, aligned or not."""
    told = {}
    for name, dtype, begin in (("bfloat16", torch.bfloat16, 0), ("float32", torch.float32, 0), ("bfloat16 at byte 2", torch.bfloat16, 1)):
        each = 250_000_000 // 100 // dtype.itemsize
        tensors = [torch.randn(each + begin, device="cuda").to(dtype)[begin:] for _ in range(100)]
        table = table_of(tensors)
        chunks = lib.nsa_chunks(table, len(tensors))
        address, _held = cards.sent(DEVICE, table, len(tensors))
        room, stream = cards.room(DEVICE, 8 * WORDS * chunks), torch.cuda.current_stream().cuda_stream
        times = []
        for _ in range(30):
            begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begun.record()
            cards.launch(DEVICE, stream, address, len(tensors), chunks, room[1])
            ended.record()
            torch.cuda.synchronize()
            times.append(begun.elapsed_time(ended))
        middle = statistics.median(times[5:])
        told[name] = {"ms": round(middle, 4), "GB/s": round(sum(tensor.nbytes for tensor in tensors) / middle / 1e6, 1)}
    return told


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(self.before(x)).chunk(3, -1))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(torch.nn.functional.gelu(self.up(self.between(x))))


class Model(torch.nn.Module):
    """125 million parameters."""

    def __init__(self, width=768, layers=12, words=50304):
        super().__init__()
        self.words = torch.nn.Embedding(words, width)
        self.layers = torch.nn.Sequential(*[Block(width, 12) for _ in range(layers)])
        self.head = torch.nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        return self.head(self.layers(self.words(ids)))


class Training:
    def __init__(self, watched, batch, length):
        torch.manual_seed(0)
        self.model = Model().cuda().bfloat16()
        if "RANK" in os.environ:
            self.model = torch.nn.parallel.DistributedDataParallel(self.model, device_ids=[DEVICE])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.ids = torch.randint(0, 50304, (batch, length + 1), device="cuda")
        plain = torch.autograd.backward
        if watched:
            import nsa_harness.train

            nsa_harness.train.watch(self.model, self.optimizer, every=10**9)
        self.backward, torch.autograd.backward = torch.autograd.backward, plain
        self.ms, self.loss = [], None

    def step(self):
        torch.autograd.backward = self.backward
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(4):  # so that the host may be ahead of the card, as it is in a training
            self.optimizer.zero_grad()
            logits = self.model(self.ids[:, :-1])
            self.loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), self.ids[:, 1:].flatten())
            self.loss.backward()
            self.optimizer.step()
        torch.cuda.synchronize()
        self.ms.append(1000 * (time.perf_counter() - begun) / 4)


def drain(address):
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen()

    def read():
        rank, _ = listening.accept()
        while rank.recv(1 << 20):
            time.sleep(0.05)

    threading.Thread(target=read, daemon=True).start()


def time_of_step(turns, batch, length):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ.update(NSA_HARNESS_SOCKET=os.path.join(folder, "ranks.sock"), NSA_HARNESS_ORIGIN_MS="0")
        drain(os.environ["NSA_HARNESS_SOCKET"])
        plain, watched, again = (Training(name == "watched", batch, length) for name in ("plain", "watched", "again"))
        for turn in range(turns):
            for training in (plain, watched, again):  # none twice in a row: a second turn finds its memory warm
                training.step()
    settled = range(5, turns)
    base = [(plain.ms[turn] + again.ms[turn]) / 2 for turn in settled]
    differences = [100 * (watched.ms[turn] / base[index] - 1) for index, turn in enumerate(settled)]
    controls = [100 * (again.ms[turn] / plain.ms[turn] - 1) for turn in settled]

    def interval(values):
        middle, half = statistics.mean(values), 1.96 * statistics.stdev(values) / len(values) ** 0.5
        return {"mean %": round(middle, 3), "from %": round(middle - half, 3), "to %": round(middle + half, 3)}

    return {
        "model": "125 M parameters, bfloat16, AdamW fused",
        "ranks": int(os.environ.get("WORLD_SIZE", "1")),
        "batch": batch,
        "length": length,
        "plain ms": round(statistics.median(base), 3),
        "plain / plain": interval(controls),
        "watched": interval(differences),
        # Some operators of a card round in another way each time: then the second plain one differs too.
        "same loss": {"watched": float(plain.loss) == float(watched.loss), "plain": float(plain.loss) == float(again.loss)},
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=1024)
    arguments = parser.parse_args()
    torch.cuda.set_device(DEVICE)
    if "RANK" in os.environ:
        torch.distributed.init_process_group("nccl")
    torch.manual_seed(arguments.seed)
    lib, cards = library(), Cards(torch)
    wrong, looked = equal(lib, cards, arguments.rounds, random.Random(arguments.seed))
    told = {"card": torch.cuda.get_device_name(), "torch": torch.__version__, "tensors compared": looked, "wrong": wrong[:20]}
    told["launch over 250 MB"] = time_of_launch(lib, cards)
    told["step"] = time_of_step(arguments.turns, arguments.batch, arguments.length)
    if int(os.environ.get("RANK", "0")) != 0:
        time.sleep(5)  # the first rank is the one that is asked
        os._exit(0)
    os.makedirs(arguments.out, exist_ok=True)
    with open(os.path.join(arguments.out, "fingerprint.json"), "w", encoding="utf-8") as file:
        json.dump(told, file, indent=1)
    print(json.dumps(told, indent=1))
    sys.stdout.flush()
    same = told["step"]["same loss"]
    os._exit(1 if wrong or (same["plain"] and not same["watched"]) else 0)


if __name__ == "__main__":
    main()
