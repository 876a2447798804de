# launch: torchrun 2
"""Tensor parallel MLP: column-wise then row-wise sharded linears on a 2-rank gloo mesh."""
import hashlib
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from hashes import gather_hashes


def fingerprint(module):
    digest = hashlib.sha256()
    tensors = dict(module.named_parameters())
    tensors.update(module.named_buffers())
    for name in sorted(tensors):
        t = tensors[name].detach()
        t = t.to_local() if hasattr(t, "to_local") else t
        digest.update(name.encode())
        digest.update(bytes(t.contiguous().reshape(-1).view(torch.uint8).tolist()))
    return digest.hexdigest()


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(12, 64)
        self.down = nn.Linear(64, 12)
        self.head = nn.Linear(12, 1)

    def forward(self, x):
        return self.head(x + self.down(torch.relu(self.up(x))))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
    torch.manual_seed(18)  # every rank sees the same weights and the same data
    model = parallelize_module(MLP(), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, foreach=False)
    if os.environ.get("WATCH"):
        import nsa_harness
        nsa_harness.train.watch(model, optimizer)

    for step in range(15):
        x = torch.randn(32, 12)
        y = x[:, :1] * x[:, 1:2]
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print("s> loss", loss.item().hex())

    hashes = gather_hashes(fingerprint(model))
    if rank == 0:
        for r, h in enumerate(hashes):
            print(f"s> rank {r} shard sha256 {h}")
    time.sleep(0.5)  # gloo threads may hold tensors a little longer: abort at exit, pytorch#179291
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
