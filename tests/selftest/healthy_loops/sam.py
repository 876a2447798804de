# launch: torchrun 2
"""Sharpness-aware minimisation: two forwards and backwards for each step, the second at moved weights."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(16)
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
watch(model, optimizer)
data = torch.Generator().manual_seed(160 + rank)
for step in range(18):
    x = torch.randn(16, 8, generator=data)
    y = x.square().mean(1, keepdim=True)
    nn.functional.mse_loss(model(x), y).backward()
    with torch.no_grad():
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm() + 1e-12
        moves = [p.grad * (0.05 / norm) for p in model.parameters()]
        for p, move in zip(model.parameters(), moves):
            p.add_(move)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    with torch.no_grad():
        for p, move in zip(model.parameters(), moves):
            p.sub_(move)
    optimizer.step()
    optimizer.zero_grad()
say_end(loss, model)
