# launch: torchrun 2
"""Half precision with a GradScaler that begins too large, so it skips some steps on all ranks."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(4)
model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
watch(model, optimizer)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=8)
data = torch.Generator().manual_seed(40 + rank)
for step in range(30):
    x = torch.randn(16, 16, generator=data)
    y = x[:, :4].argmax(1)
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
say_end(loss, model)
