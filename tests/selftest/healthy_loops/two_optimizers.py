# launch: torchrun 2
"""One model, two optimisers: SGD for the embedding and AdamW for the rest."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(10)
net = nn.Sequential(nn.Embedding(20, 16), nn.Flatten(), nn.Linear(64, 20))
model = DistributedDataParallel(net)
first = torch.optim.SGD(net[0].parameters(), lr=0.5)
second = torch.optim.AdamW(net[2].parameters(), lr=2e-3)
watch(model, first)
watch(model, second)
data = torch.Generator().manual_seed(100 + rank)
for step in range(20):
    tokens = torch.randint(0, 20, (16, 5), generator=data)
    loss = nn.functional.cross_entropy(model(tokens[:, :4]), tokens[:, 0])
    first.zero_grad()
    second.zero_grad()
    loss.backward()
    first.step()
    second.step()
say_end(loss, model)
