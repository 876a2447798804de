# launch: torchrun 2
"""Gradient accumulation over 4 micro-batches without no_sync: each micro-batch reduces the sum so far."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(2)
model = DistributedDataParallel(nn.Sequential(nn.Linear(10, 24), nn.Tanh(), nn.Linear(24, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
watch(model, optimizer)
data = torch.Generator().manual_seed(20 + rank)
for micro in range(1, 81):
    x = torch.randn(6, 10, generator=data)
    loss = (model(x) - x.sin().sum(1, keepdim=True)).square().mean() / 4
    loss.backward()
    if micro % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
say_end(loss, model)
