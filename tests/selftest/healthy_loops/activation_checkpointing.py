# launch: torchrun 2
"""Blocks are recomputed in the backward (use_reentrant=False), with dropout."""
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 16)) for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = x + checkpoint(block, x, use_reentrant=False)
        return x


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(18)
model = DistributedDataParallel(Net())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
watch(model, optimizer)
torch.manual_seed(1800 + rank)
for step in range(18):
    x = torch.randn(8, 16)
    loss = nn.functional.mse_loss(model(x), x.roll(1, 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
say_end(loss, model)
