# launch: torchrun 2
"""A penalty on the gradient with respect to the input: autograd.grad with create_graph, then one backward."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(19)
critic = DistributedDataParallel(nn.Sequential(nn.Linear(6, 24), nn.Softplus(), nn.Linear(24, 1)))
optimizer = torch.optim.RMSprop(critic.parameters(), lr=5e-4)
watch(critic, optimizer)
data = torch.Generator().manual_seed(190 + rank)
for step in range(20):
    x = torch.randn(16, 6, generator=data).requires_grad_()
    score = critic(x).sum()
    (slope,) = torch.autograd.grad(score, x, create_graph=True)
    loss = score / 16 + 10 * (slope.norm(dim=1) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
say_end(loss, critic)
