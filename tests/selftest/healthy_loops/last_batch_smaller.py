# launch: torchrun 2
"""Epochs of 5 batches whose last one is smaller, and of different size on the two ranks."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(32)
model = DistributedDataParallel(nn.Sequential(nn.Linear(5, 15), nn.ReLU(), nn.Linear(15, 2)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
watch(model, optimizer)
data = torch.Generator().manual_seed(320 + rank)
x = torch.randn(34 + 3 * rank, 5, generator=data)
y = (x.sum(1) > 0).long()
for epoch in range(5):
    order = torch.randperm(len(x), generator=data)
    for part in order.split(8):
        loss = nn.functional.cross_entropy(model(x[part]), y[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
say_end(loss, model)
