# launch: torchrun 2
"""A batch is left out by all ranks together when one of them finds it empty: no forward, no step."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(27)
model = DistributedDataParallel(nn.Linear(6, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
watch(model, optimizer)
data = torch.Generator().manual_seed(270 + rank)
for step in range(30):
    x = torch.randn(8, 6, generator=data)
    empty = torch.tensor(float(torch.rand((), generator=data) < 0.15))
    dist.all_reduce(empty, op=dist.ReduceOp.MAX)
    if empty:
        continue
    loss = nn.functional.cross_entropy(model(x), x[:, :3].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
say_end(loss, model)
