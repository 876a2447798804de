# launch: torchrun 2
"""DDP with gradient accumulation: three micro-batches under no_sync, the fourth synchronises."""
import contextlib
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from hashes import fingerprint, gather_hashes

ACCUM = 4


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 5))
    model = DDP(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    if os.environ.get("WATCH"):
        import nsa_harness
        nsa_harness.train.watch(model, optimizer)

    gen = torch.Generator().manual_seed(100 + rank)
    teacher = torch.randn(20, 5, generator=torch.Generator().manual_seed(7))
    for step in range(10):
        total = 0.0
        for micro in range(ACCUM):
            x = torch.randn(16, 20, generator=gen)
            y = (x @ teacher).argmax(1)
            last = micro == ACCUM - 1
            with contextlib.nullcontext() if last else model.no_sync():
                loss = nn.functional.cross_entropy(model(x), y) / ACCUM
                loss.backward()
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            print("s> loss", total.hex())

    hashes = gather_hashes(fingerprint(model))
    if rank == 0:
        for r, h in enumerate(hashes):
            print(f"s> rank {r} sha256 {h}")
    time.sleep(0.5)  # gloo threads may hold tensors a little longer: abort at exit, pytorch#179291
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
