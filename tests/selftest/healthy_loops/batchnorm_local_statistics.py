# launch: torchrun 2
"""BatchNorm with broadcast_buffers=False: the running statistics of the ranks differ, and they may."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(6)
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 24), nn.BatchNorm1d(24), nn.GELU(), nn.Linear(24, 2)), broadcast_buffers=False)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
watch(model, optimizer)
data = torch.Generator().manual_seed(60 + rank)
for step in range(24):
    x = torch.randn(12, 8, generator=data) * (1 + rank)
    loss = nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
say_end(loss, model)
