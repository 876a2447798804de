# launch: torchrun 2
"""Rank 0 alone evaluates the unwrapped module every 5 steps; the others wait at a barrier."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(44)
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 24), nn.LayerNorm(24), nn.ReLU(), nn.Linear(24, 4)))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
watch(model, optimizer)
data = torch.Generator().manual_seed(440 + rank)
held_out = torch.randn(40, 8, generator=torch.Generator().manual_seed(44))
for step in range(20):
    x = torch.randn(8, 8, generator=data)
    loss = nn.functional.cross_entropy(model(x), x[:, :4].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        if rank == 0:
            model.eval()
            with torch.no_grad():
                for part in held_out.split(10):
                    model.module(part)
            model.train()
        dist.barrier()
say_end(loss, model)
