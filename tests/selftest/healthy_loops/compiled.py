# launch: torchrun 2
"""The module is compiled (backend eager) before it is wrapped."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(35)
net = nn.Sequential(nn.Linear(8, 24), nn.GELU(), nn.Linear(24, 4))
model = DistributedDataParallel(torch.compile(net, backend="eager"))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
watch(model, optimizer)
data = torch.Generator().manual_seed(350 + rank)
for step in range(14):
    x = torch.randn(8, 8, generator=data)
    loss = nn.functional.cross_entropy(model(x), x[:, :4].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
say_end(loss, net)
