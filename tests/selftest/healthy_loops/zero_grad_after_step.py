# launch: torchrun 2
"""zero_grad stands before the first step and after each step."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(24)
model = DistributedDataParallel(nn.Sequential(nn.Linear(7, 21), nn.ReLU(), nn.Linear(21, 7)))
optimizer = torch.optim.NAdam(model.parameters(), lr=2e-3)
watch(model, optimizer)
data = torch.Generator().manual_seed(240 + rank)
optimizer.zero_grad()
for step in range(20):
    x = torch.randn(8, 7, generator=data)
    loss = nn.functional.mse_loss(model(x), -x)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
say_end(loss, model)
