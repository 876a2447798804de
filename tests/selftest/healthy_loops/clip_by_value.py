# launch: torchrun 2
"""Gradients are clipped element by element; zero_grad of the model, not of the optimiser."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(23)
model = DistributedDataParallel(nn.Sequential(nn.Linear(5, 20), nn.ELU(), nn.Linear(20, 1)), gradient_as_bucket_view=True)
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
watch(model, optimizer)
data = torch.Generator().manual_seed(230 + rank)
for step in range(26):
    x = torch.randn(8, 5, generator=data)
    loss = nn.functional.smooth_l1_loss(model(x), x.exp().mean(1, keepdim=True))
    model.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.1)
    optimizer.step()
say_end(loss, model)
