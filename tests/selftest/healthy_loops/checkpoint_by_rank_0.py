# launch: torchrun 2
"""Rank 0 saves every 6 steps between two barriers; at the end all ranks load the file again."""
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(34)
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
watch(model, optimizer)
path = os.path.join(tempfile.gettempdir(), f"checkpoint_by_rank_0.{os.environ['MASTER_PORT']}.pt")
data = torch.Generator().manual_seed(340 + rank)
for step in range(18):
    x = torch.randn(8, 8, generator=data)
    loss = nn.functional.mse_loss(model(x), x.roll(2, 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 6 == 5:
        dist.barrier()
        if rank == 0:
            torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path)
        dist.barrier()
model.module.load_state_dict(torch.load(path)["model"])
dist.barrier()
if rank == 0:
    os.remove(path)
say_end(loss, model)
