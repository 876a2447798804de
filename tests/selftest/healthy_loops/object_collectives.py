# launch: torchrun 2
# needs: numpy
"""Python objects travel between the ranks: a configuration from rank 0, and a dictionary of metrics from each rank."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(47)
configuration = [{"lr": 3e-3, "steps": 18} if rank == 0 else None]
dist.broadcast_object_list(configuration, src=0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)))
optimizer = torch.optim.AdamW(model.parameters(), lr=configuration[0]["lr"])
watch(model, optimizer)
data = torch.Generator().manual_seed(470 + rank)
for step in range(configuration[0]["steps"]):
    x = torch.randn(8, 8, generator=data)
    loss = nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 6 == 5:
        everybody = [None] * world
        dist.all_gather_object(everybody, {"rank": rank, "loss": loss.item()})
say_end(loss, model)
