# launch: torchrun 2
"""Gradient accumulation over 3 micro-batches, the first two under no_sync."""
import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
model = DistributedDataParallel(nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 3)))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
watch(model, optimizer)
data = torch.Generator().manual_seed(10 + rank)
for step in range(16):
    optimizer.zero_grad()
    for micro in range(3):
        x = torch.randn(8, 12, generator=data)
        y = x[:, :3].argmax(1)
        with model.no_sync() if micro < 2 else contextlib.nullcontext():
            loss = nn.functional.cross_entropy(model(x), y) / 3
            loss.backward()
    optimizer.step()
say_end(loss, model)
