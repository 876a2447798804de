# launch: torchrun 2
"""Rank 0 decides from its loss whether to stop, and broadcasts the decision."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(45)
model = DistributedDataParallel(nn.Linear(6, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
watch(model, optimizer)
data = torch.Generator().manual_seed(450 + rank)
best, patience = float("inf"), 0
stop = torch.zeros(1)
for step in range(40):
    x = torch.randn(16, 6, generator=data)
    loss = nn.functional.mse_loss(model(x), x.mean(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if rank == 0:
        patience = 0 if loss.item() < best - 1e-4 else patience + 1
        best = min(best, loss.item())
        stop.fill_(float(patience >= 4 and step >= 14))
    dist.broadcast(stop, src=0)
    if stop:
        break
say_end(loss, model)
