# launch: torchrun 2
"""L-BFGS: its step calls a closure several times; the closure averages the loss, so that all ranks decide alike."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(17)
model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 1)))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)
watch(model, optimizer)
data = torch.Generator().manual_seed(170 + rank)
x = torch.randn(64, 4, generator=data)
y = x.prod(1, keepdim=True).tanh()


def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    return mean / world


for step in range(12):
    loss = optimizer.step(closure)
say_end(loss, model)
