# launch: torchrun 2
"""fully_shard with two micro-batches; the first one does not reduce."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(51)
mesh = init_device_mesh("cpu", (world,))
model = fully_shard(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)), mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
watch(model, optimizer)
data = torch.Generator().manual_seed(510 + rank)
for step in range(14):
    optimizer.zero_grad()
    for micro in range(2):
        model.set_requires_gradient_sync(micro == 1)
        x = torch.randn(8, 8, generator=data)
        loss = nn.functional.cross_entropy(model(x), x[:, :4].argmax(1)) / 2
        loss.backward()
    optimizer.step()
say_end(loss, model)
