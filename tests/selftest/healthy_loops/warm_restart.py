# launch: torchrun 2
"""At step 12 all ranks load the weights and the optimiser of step 6 and go on with a smaller rate."""
import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(15)
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 4)))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
watch(model, optimizer)
data = torch.Generator().manual_seed(150 + rank)
for step in range(24):
    if step == 6:
        kept = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    if step == 12:
        model.load_state_dict(kept[0])
        optimizer.load_state_dict(kept[1])
        for group in optimizer.param_groups:
            group["lr"] = 1e-3
    x = torch.randn(8, 8, generator=data)
    loss = nn.functional.cross_entropy(model(x), x[:, 4:].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
say_end(loss, model)
