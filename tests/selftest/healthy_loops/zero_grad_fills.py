# launch: torchrun 2
"""zero_grad(set_to_none=False): gradients are filled with zeros and stay; it is called twice by mistake, which does no harm."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(25)
model = DistributedDataParallel(nn.Sequential(nn.Linear(7, 21), nn.ReLU(), nn.Linear(21, 3)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
watch(model, optimizer)
data = torch.Generator().manual_seed(250 + rank)
for step in range(24):
    optimizer.zero_grad(set_to_none=False)
    x = torch.randn(8, 7, generator=data)
    loss = nn.functional.cross_entropy(model(x), x[:, :3].argmin(1))
    model.zero_grad(set_to_none=False)
    loss.backward()
    optimizer.step()
say_end(loss, model)
