# launch: torchrun 2
"""Weights in bfloat16; the optimiser holds float32 copies, and the weights are copied from them after each step."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(37)
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8)).bfloat16())
masters = [p.detach().float().requires_grad_() for p in model.parameters()]
optimizer = torch.optim.AdamW(masters, lr=1e-3)
watch(model, optimizer)
data = torch.Generator().manual_seed(370 + rank)
for step in range(20):
    x = torch.randn(8, 8, generator=data).bfloat16()
    loss = (model(x) - x.flip(1)).float().square().mean()
    model.zero_grad()
    loss.backward()
    for master, p in zip(masters, model.parameters()):
        master.grad = p.grad.float()
    optimizer.step()
    with torch.no_grad():
        for master, p in zip(masters, model.parameters()):
            p.copy_(master)
say_end(loss, model)
