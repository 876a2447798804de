# launch: torchrun 2
"""Gradients are clipped to a norm that is often exceeded; the norm is logged."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(22)
model = DistributedDataParallel(nn.LSTM(6, 16, batch_first=True))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
watch(model, optimizer)
data = torch.Generator().manual_seed(220 + rank)
norms = []
for step in range(20):
    x = torch.randn(4, 10, 6, generator=data)
    out, _ = model(x)
    loss = (out.sum(2) - x.sum(2)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.5).item())
    optimizer.step()
say_end(loss, model)
