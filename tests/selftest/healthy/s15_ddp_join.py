# launch: torchrun 2
# told: FAIL STATE.DIVERGED
"""DDP join(): rank 1 has three batches more than rank 0."""
import math
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from hashes import fingerprint, gather_hashes


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(15)
    model = DDP(nn.Sequential(nn.Linear(8, 32), nn.ELU(), nn.Linear(32, 2)))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    if os.environ.get("WATCH"):
        import nsa_harness
        nsa_harness.train.watch(model, optimizer)

    gen = torch.Generator().manual_seed(rank)
    losses = torch.full((2, 9), float("nan"), dtype=torch.double)  # epoch x batch
    for epoch in range(2):
        batches = [torch.randn(20, 8, generator=gen) for _ in range(6 + 3 * rank)]
        with model.join():
            for i, x in enumerate(batches):
                loss = nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses[epoch, i] = loss.item()

    gathered = [torch.empty_like(losses) for _ in range(world)]
    dist.all_gather(gathered, losses)
    hashes = gather_hashes(fingerprint(model))
    if rank == 0:
        for r in range(world):
            for value in gathered[r].flatten().tolist():
                if not math.isnan(value):
                    print(f"s> rank {r} loss {value.hex()}")
            print(f"s> rank {r} sha256 {hashes[r]}")
    time.sleep(0.5)  # gloo threads may hold tensors a little longer: abort at exit, pytorch#179291
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
