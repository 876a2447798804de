# launch: torchrun 2
"""fully_shard on each layer and on the whole, with clipping."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(49)
mesh = init_device_mesh("cpu", (world,))
model = nn.Sequential(*(nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True) for _ in range(2)), nn.Linear(16, 16))
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
watch(model, optimizer)
data = torch.Generator().manual_seed(490 + rank)
for step in range(16):
    x = torch.randn(4, 6, 16, generator=data)
    loss = nn.functional.mse_loss(model(x), x.roll(1, 1))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
say_end(loss, model)
