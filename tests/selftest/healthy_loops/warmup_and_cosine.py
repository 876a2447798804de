# launch: torchrun 2
"""Two parameter groups, one without weight decay; linear warm-up, then cosine; the rate of the first step is zero."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(20)
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 8)))
decayed = [p for p in model.parameters() if p.dim() > 1]
plain = [p for p in model.parameters() if p.dim() <= 1]
optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}], lr=3e-3)
warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 5))
cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=25)
watch(model, optimizer)
data = torch.Generator().manual_seed(200 + rank)
for step in range(30):
    x = torch.randn(8, 8, generator=data)
    loss = nn.functional.mse_loss(model(x), x.sort(1).values)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    (warmup if step < 5 else cosine).step()
say_end(loss, model)
