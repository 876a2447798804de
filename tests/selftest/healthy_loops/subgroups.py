# launch: torchrun 2
"""A group for each rank and one for all of them beside the default one; the wrapper reduces in a group of its own."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(48)
reducing = dist.new_group([0, 1])
own = [dist.new_group([member]) for member in range(world)][rank]
statistics = dist.new_group([0, 1])
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)), process_group=reducing)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
watch(model, optimizer)
data = torch.Generator().manual_seed(480 + rank)
for step in range(18):
    x = torch.randn(8, 8, generator=data)
    loss = nn.functional.mse_loss(model(x), x.abs())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    dist.all_reduce(loss.detach().clone(), group=own)
    if step % 3 == 2:
        dist.all_reduce(loss.detach().clone(), group=statistics)
say_end(loss, model)
