# launch: torchrun 2
"""Weights and optimiser in bfloat16, with a rate that is large enough to move them."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(38)
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2)).bfloat16())
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
watch(model, optimizer)
data = torch.Generator().manual_seed(380 + rank)
for step in range(20):
    x = torch.randn(16, 8, generator=data)
    loss = nn.functional.cross_entropy(model(x.bfloat16()).float(), (x[:, 0] > x[:, 1]).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
say_end(loss, model)
