# launch: torchrun 2
"""A GAN: two wrapped models, each with its optimiser, trained in turn."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(11)
maker = DistributedDataParallel(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)))
judge = DistributedDataParallel(nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1)))
makers = torch.optim.Adam(maker.parameters(), lr=1e-3, betas=(0.5, 0.999))
judges = torch.optim.Adam(judge.parameters(), lr=1e-3, betas=(0.5, 0.999))
watch(maker, makers)
watch(judge, judges)
data = torch.Generator().manual_seed(110 + rank)
bce = nn.functional.binary_cross_entropy_with_logits
for step in range(20):
    real = torch.randn(16, 2, generator=data) + 2
    noise = torch.randn(16, 4, generator=data)
    with torch.no_grad():
        made = maker(noise)
    scores = judge(torch.cat([real, made]))
    loss = bce(scores, torch.cat([torch.ones(16, 1), torch.zeros(16, 1)]))
    judges.zero_grad()
    loss.backward()
    judges.step()
    judge.requires_grad_(False)
    loss = bce(judge.module(maker(noise)), torch.ones(16, 1))
    makers.zero_grad()
    loss.backward()
    makers.step()
    judge.requires_grad_(True)
say_end(loss, maker, judge)
