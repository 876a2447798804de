# launch: torchrun 2
"""An encoder and a decoder, each wrapped by itself; one optimiser holds both."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(26)
encoder = DistributedDataParallel(nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 4)))
decoder = DistributedDataParallel(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 12)))
optimizer = torch.optim.AdamW([*encoder.parameters(), *decoder.parameters()], lr=2e-3)
watch(nn.ModuleList([encoder, decoder]), optimizer)
data = torch.Generator().manual_seed(260 + rank)
for step in range(20):
    x = torch.randn(8, 12, generator=data)
    loss = nn.functional.mse_loss(decoder(encoder(x)), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
say_end(loss, encoder, decoder)
