# launch: torchrun 2
"""FSDP1 (FullyShardedDataParallel) on CPU with gloo, one unit per block."""
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

from hashes import fingerprint, gather_hashes


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
    torch.manual_seed(16)
    net = nn.Sequential(nn.Linear(10, 32), Block(32), Block(32), nn.Linear(32, 3))
    model = FSDP(net, auto_wrap_policy=ModuleWrapPolicy({Block}), use_orig_params=True,
                 device_id=torch.device("cpu"))
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
        norm = model.clip_grad_norm_(1.0)
        optimizer.step()
        if rank == 0:
            print("s> loss", loss.item().hex(), "norm", norm.item().hex())

    shards = gather_hashes(fingerprint(model))
    with FSDP.summon_full_params(model, writeback=False):
        full = fingerprint(model)
    if rank == 0:
        for r, h in enumerate(shards):
            print(f"s> rank {r} shard sha256 {h}")
        print("s> full sha256", full)
    time.sleep(0.5)  # gloo threads may hold tensors a little longer: abort at exit, pytorch#179291
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
