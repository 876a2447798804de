# launch: torchrun 2
"""Dropout whose masks differ between ranks: the generator is seeded by the rank after the model is made."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(7)
model = DistributedDataParallel(nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2, batch_first=True))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95))
watch(model, optimizer)
torch.manual_seed(700 + rank)
for step in range(20):
    x = torch.randn(4, 6, 16)
    loss = nn.functional.mse_loss(model(x), x.roll(1, dims=1))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
say_end(loss, model)
