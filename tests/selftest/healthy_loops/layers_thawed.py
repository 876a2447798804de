# launch: torchrun 2
"""Layers are thawed in turn: all ranks freeze the first one for 10 steps, and wrap the model again when they thaw it."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(54)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
data = torch.Generator().manual_seed(540 + rank)
for phase, lr in ((0, 5e-3), (1, 1e-3)):
    net[0].requires_grad_(phase == 1)
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr)
    watch(model, optimizer)
    for step in range(10):
        x = torch.randn(8, 8, generator=data)
        loss = nn.functional.cross_entropy(model(x), x[:, :4].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
say_end(loss, net)
