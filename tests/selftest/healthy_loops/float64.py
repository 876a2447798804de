# launch: torchrun 2
"""Everything in float64."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(36)
torch.set_default_dtype(torch.float64)
model = DistributedDataParallel(nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1)))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
watch(model, optimizer)
data = torch.Generator().manual_seed(360 + rank)
for step in range(24):
    x = torch.rand(16, 3, generator=data)
    loss = nn.functional.mse_loss(model(x), (3 * x).sin().sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
say_end(loss, model)
