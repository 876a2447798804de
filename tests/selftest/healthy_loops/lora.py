# launch: torchrun 2
"""Low-rank adapters beside frozen weights; the optimiser holds the adapters only."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch


class Adapted(nn.Module):
    def __init__(self, size, rank=4):
        super().__init__()
        self.base = nn.Linear(size, size).requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, size) * 0.1)
        self.up = nn.Parameter(torch.zeros(size, rank))

    def forward(self, x):
        return self.base(x) + x @ self.down.T @ self.up.T


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(12)
model = DistributedDataParallel(nn.Sequential(Adapted(16), nn.GELU(), Adapted(16)))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3)
watch(model, optimizer)
data = torch.Generator().manual_seed(120 + rank)
for step in range(22):
    x = torch.randn(8, 16, generator=data)
    loss = nn.functional.mse_loss(model(x), x.cumsum(1) / 4)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
say_end(loss, model)
