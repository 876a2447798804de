# launch: torchrun 2
"""An exponential average of the weights is put in place for an evaluation, and the weights are put back."""
import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(9)
net = nn.Sequential(nn.Linear(10, 32), nn.SiLU(), nn.Linear(32, 10))
model = DistributedDataParallel(net)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
watch(model, optimizer)
average = copy.deepcopy(net).requires_grad_(False)
data = torch.Generator().manual_seed(90 + rank)
for step in range(24):
    x = torch.randn(8, 10, generator=data)
    loss = nn.functional.mse_loss(model(x), x.flip(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(average.parameters(), net.parameters()):
            slow.lerp_(fast, 0.1)
    if step % 8 == 7:
        kept = copy.deepcopy(net.state_dict())
        net.load_state_dict(average.state_dict())
        with torch.no_grad():
            model(torch.ones(4, 10))
        net.load_state_dict(kept)
say_end(loss, model, average)
