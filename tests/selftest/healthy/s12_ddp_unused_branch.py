# launch: torchrun 2
"""DDP find_unused_parameters: each rank takes a random expert, one expert is never used."""
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from hashes import fingerprint, gather_hashes


class Routed(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(10, 24)
        self.experts = nn.ModuleList(nn.Linear(24, 24) for _ in range(3))
        self.never = nn.Linear(24, 24)
        self.head = nn.Linear(24, 1)

    def forward(self, x, route):
        x = torch.relu(self.stem(x))
        return self.head(torch.relu(self.experts[route](x)))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(12)
    model = DDP(Routed(), find_unused_parameters=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    if os.environ.get("WATCH"):
        import nsa_harness
        nsa_harness.train.watch(model, optimizer)

    gen = torch.Generator().manual_seed(50 + rank)
    for step in range(20):
        x = torch.randn(16, 10, generator=gen)
        y = x.abs().sum(1, keepdim=True)
        route = int(torch.randint(0, 3, (1,), generator=gen))
        loss = nn.functional.mse_loss(model(x, route), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if rank == 0:
            missing = sum(p.grad is None for p in model.parameters())
            print("s> loss", loss.item().hex(), "without gradient", missing)

    hashes = gather_hashes(fingerprint(model))
    if rank == 0:
        for r, h in enumerate(hashes):
            print(f"s> rank {r} sha256 {h}")
    time.sleep(0.5)  # gloo threads may hold tensors a little longer: abort at exit, pytorch#179291
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
