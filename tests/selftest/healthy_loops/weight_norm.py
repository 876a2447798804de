# launch: torchrun 2
"""Weight normalisation and an orthogonal layer, both as parametrisations."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parametrizations
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(42)
net = nn.Sequential(parametrizations.weight_norm(nn.Linear(8, 8)), nn.Tanh(), parametrizations.orthogonal(nn.Linear(8, 8)))
model = DistributedDataParallel(net)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
watch(model, optimizer)
data = torch.Generator().manual_seed(420 + rank)
for step in range(18):
    x = torch.randn(8, 8, generator=data)
    loss = nn.functional.mse_loss(model(x), x.flip(1).tanh())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
say_end(loss, model)
