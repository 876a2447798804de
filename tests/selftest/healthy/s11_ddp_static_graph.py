# launch: torchrun 2
"""DDP with static_graph=True around a model that checkpoints and reuses one of its layers."""
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint

from hashes import fingerprint, gather_hashes


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(12, 40)
        self.shared = nn.Sequential(nn.Linear(40, 40), nn.Tanh())
        self.head = nn.Linear(40, 3)

    def forward(self, x):
        x = self.stem(x)
        x = checkpoint(self.shared, x, use_reentrant=True)
        x = checkpoint(self.shared, x, use_reentrant=False)
        return self.head(x)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(11)
    model = DDP(Net(), static_graph=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    if os.environ.get("WATCH"):
        import nsa_harness
        nsa_harness.train.watch(model, optimizer)

    gen = torch.Generator().manual_seed(rank)
    for step in range(20):
        x = torch.randn(24, 12, generator=gen)
        y = x[:, :3].argmax(1)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            print("s> loss", loss.item().hex(), "mean", (mean / world).item().hex())

    hashes = gather_hashes(fingerprint(model))
    if rank == 0:
        for r, h in enumerate(hashes):
            print(f"s> rank {r} sha256 {h}")
    time.sleep(0.5)  # gloo threads may hold tensors a little longer: abort at exit, pytorch#179291
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
