# launch: torchrun 2
"""Where a loss is not finite on a rank, all ranks drop their gradients after the backward and take no step."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(28)
model = DistributedDataParallel(nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1)))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
watch(model, optimizer)
data = torch.Generator().manual_seed(280 + rank)
for step in range(24):
    x = torch.randn(8, 6, generator=data)
    loss = (model(x) - x.mean(1, keepdim=True)).square().mean()
    too_large = (loss.detach() > 0.25).float()
    loss.backward()
    dist.all_reduce(too_large, op=dist.ReduceOp.MAX)
    if not too_large:
        optimizer.step()
    optimizer.zero_grad()
say_end(loss, model)
