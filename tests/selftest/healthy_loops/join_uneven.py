# launch: torchrun 2
"""The ranks have 14 and 19 batches; join lets the first one shadow the reductions of the other one."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(8)
model = DistributedDataParallel(nn.Linear(6, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
watch(model, optimizer)
data = torch.Generator().manual_seed(80 + rank)
batches = [torch.randn(8, 6, generator=data) for _ in range(14 + 5 * rank)]
with model.join():
    for x in batches:
        loss = nn.functional.mse_loss(model(x), x[:, :2] * 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
say_end(loss, model)
