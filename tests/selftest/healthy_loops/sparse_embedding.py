# launch: torchrun 2
"""An embedding with sparse gradients and SparseAdam, reduced by DistributedDataParallel; the rest is fixed."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(40)
model = DistributedDataParallel(nn.EmbeddingBag(40, 8, sparse=True))
optimizer = torch.optim.SparseAdam(model.parameters(), lr=1e-2)
watch(model, optimizer)
data = torch.Generator().manual_seed(400 + rank)
wanted = torch.randn(40, 8, generator=torch.Generator().manual_seed(4))
for step in range(18):
    bags = torch.randint(0, 40, (6, 4), generator=data)
    loss = nn.functional.mse_loss(model(bags), wanted[bags].mean(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
say_end(loss, model)
