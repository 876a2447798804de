# launch: torchrun 2
"""Each rank routes its batch to one drawn expert of four, with find_unused_parameters."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 16)
        self.experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
        self.head = nn.Linear(16, 4)

    def forward(self, x, chosen):
        return self.head(torch.relu(self.experts[chosen](torch.relu(self.inner(x)))))


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(14)
model = DistributedDataParallel(Experts(), find_unused_parameters=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
watch(model, optimizer)
data = torch.Generator().manual_seed(140 + rank)
for step in range(24):
    x = torch.randn(8, 8, generator=data)
    chosen = int(torch.randint(0, 4, (), generator=data))
    loss = nn.functional.cross_entropy(model(x, chosen), x[:, :4].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
say_end(loss, model)
