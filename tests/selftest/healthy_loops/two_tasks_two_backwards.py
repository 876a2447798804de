# launch: torchrun 2
"""Two tasks: a forward and backward for each, the first under no_sync, and one step."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(10, 32), nn.GELU())
        self.heads = nn.ModuleDict({"sort": nn.Linear(32, 10), "largest": nn.Linear(32, 10)})

    def forward(self, x, task):
        return self.heads[task](self.trunk(x))


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(29)
model = DistributedDataParallel(TwoHeads(), find_unused_parameters=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
watch(model, optimizer)
data = torch.Generator().manual_seed(290 + rank)
for step in range(20):
    x = torch.randn(8, 10, generator=data)
    optimizer.zero_grad()
    with model.no_sync():
        nn.functional.mse_loss(model(x, "sort"), x.sort(1).values).backward()
    loss = nn.functional.cross_entropy(model(x, "largest"), x.argmax(1))
    loss.backward()
    optimizer.step()
say_end(loss, model)
