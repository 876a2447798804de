# launch: torchrun 2
"""BatchNorm in a small convolutional net; DistributedDataParallel broadcasts its statistics from rank 0."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(5)
net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4, nesterov=True)
watch(model, optimizer)
data = torch.Generator().manual_seed(50 + rank)
for step in range(20):
    x = torch.randn(8, 3, 8, 8, generator=data)
    y = torch.randint(0, 5, (8,), generator=data)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
say_end(loss, model)
