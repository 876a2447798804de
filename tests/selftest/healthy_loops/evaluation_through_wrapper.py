# launch: torchrun 2
"""Every 5 steps all ranks evaluate through the wrapper, under no_grad and with eval(), and average the result."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(3)
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
watch(model, optimizer)
data = torch.Generator().manual_seed(30 + rank)
held_out = torch.randn(32, 8, generator=torch.Generator().manual_seed(99))
for step in range(25):
    model.train()
    x = torch.randn(16, 8, generator=data)
    loss = nn.functional.cross_entropy(model(x), x[:, :4].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        model.eval()
        with torch.no_grad():
            part = held_out[rank::world]
            right = (model(part).argmax(1) == part[:, :4].argmax(1)).float().mean()
        dist.all_reduce(right)
say_end(loss, model)
