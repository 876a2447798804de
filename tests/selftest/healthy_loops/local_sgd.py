# launch: torchrun 2
"""No wrapper: each rank trains by itself, and the weights are averaged every 5 steps. Between, they differ by right."""
import torch
import torch.distributed as dist
from torch import nn

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(53)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
watch(model, optimizer)
data = torch.Generator().manual_seed(530 + rank)
for step in range(20):
    x = torch.randn(8, 8, generator=data)
    loss = nn.functional.mse_loss(model(x), x.norm(dim=1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        with torch.no_grad():
            for p in model.parameters():
                dist.all_reduce(p)
                p /= world
say_end(loss, model)
