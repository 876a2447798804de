# launch: torchrun 2
"""Three losses with weights that are learned too, added up for one backward."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch


class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(9, 27), nn.ReLU(), nn.Linear(27, 9))
        self.log_variance = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        parts = self.net(x).split(3, dim=1)
        losses = torch.stack([(part - x[:, 3 * i : 3 * i + 3].sin()).square().mean() for i, part in enumerate(parts)])
        return (losses * torch.exp(-self.log_variance) + self.log_variance).sum()


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(30)
model = DistributedDataParallel(Weighted())
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
watch(model, optimizer)
data = torch.Generator().manual_seed(300 + rank)
for step in range(22):
    loss = model(torch.randn(8, 9, generator=data))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
say_end(loss, model)
