# launch: torchrun 2
"""fully_shard over a mesh of two axes: two replicas of one piece."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(50)
mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("replicate", "shard"))
model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
watch(model, optimizer)
data = torch.Generator().manual_seed(500 + rank)
for step in range(18):
    x = torch.randn(8, 8, generator=data)
    loss = nn.functional.mse_loss(model(x), x.sin())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
say_end(loss, model)
