# launch: torchrun 2
"""A frozen backbone in eval mode outside the wrapper; only the wrapped head learns."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(13)
backbone = nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU()).eval().requires_grad_(False)
head = DistributedDataParallel(nn.Linear(32, 3))
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
watch(head, optimizer)
data = torch.Generator().manual_seed(130 + rank)
for step in range(20):
    x = torch.randn(16, 12, generator=data)
    with torch.no_grad():
        features = backbone(x)
    loss = nn.functional.cross_entropy(head(features), x[:, :3].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
say_end(loss, backbone, head)
