# launch: torchrun 2
"""FSDP2 (fully_shard) on a CPU mesh with gloo."""
import hashlib
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

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


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc = nn.Linear(dim, dim)

    def forward(self, x):
        return x + torch.relu(self.fc(self.norm(x)))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (world,))
    torch.manual_seed(17)
    model = nn.Sequential(nn.Linear(10, 32), Block(32), Block(32), nn.Linear(32, 3))
    for layer in model:
        if isinstance(layer, Block):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    if os.environ.get("WATCH"):
        import nsa_harness
        nsa_harness.train.watch(model, optimizer)

    gen = torch.Generator().manual_seed(rank)
    for step in range(15):
        x = torch.randn(24, 10, generator=gen)
        loss = nn.functional.cross_entropy(model(x), x[:, :3].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0).full_tensor()
        optimizer.step()
        if rank == 0:
            print("s> loss", loss.item().hex(), "norm", norm.item().hex())

    shards = gather_hashes(fingerprint(model))
    if rank == 0:
        for r, h in enumerate(shards):
            print(f"s> rank {r} shard sha256 {h}")
    time.sleep(0.5)  # gloo threads may hold tensors a little longer: abort at exit, pytorch#179291
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
