# launch: torchrun 2
"""Loss and accuracy are averaged over the ranks in every step, and the mean loss is reduced to rank 0."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(46)
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
watch(model, optimizer)
data = torch.Generator().manual_seed(460 + rank)
for step in range(20):
    x = torch.randn(16, 8, generator=data)
    y = x[:, :4].argmax(1)
    out = model(x)
    loss = nn.functional.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    metrics = torch.stack([loss.detach(), (out.argmax(1) == y).float().mean()])
    dist.all_reduce(metrics)
    dist.reduce(loss.detach().clone(), dst=0)
say_end(loss, model)
