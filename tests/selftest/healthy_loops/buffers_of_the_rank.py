# launch: torchrun 2
"""A module that keeps its own queue of past batches and the rank's mean in buffers: they differ between ranks by right."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch


class Contrast(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 8)
        self.register_buffer("queue", torch.zeros(32, 8))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        keys = nn.functional.normalize(self.net(x), dim=1)
        logits = torch.cat([keys @ keys.T, keys @ self.queue.T.clone()], dim=1) / 0.5
        with torch.no_grad():
            self.queue.copy_(torch.cat([keys.detach(), self.queue])[:32])
            self.seen += len(x)
        return logits


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(43)
model = DistributedDataParallel(Contrast(), broadcast_buffers=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
watch(model, optimizer)
data = torch.Generator().manual_seed(430 + rank)
for step in range(20):
    x = torch.randn(8, 8, generator=data)
    loss = nn.functional.cross_entropy(model(x), torch.arange(8))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
say_end(loss, model.module.net)
