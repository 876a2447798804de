# launch: python
"""torch.compile with the aot_eager backend; the number of compiled graphs is printed too."""
import os

import torch
from torch import nn
from torch._dynamo.utils import counters

from hashes import fingerprint


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


torch.manual_seed(9)
net = nn.Sequential(nn.Linear(8, 32), Block(32), Block(32), nn.Linear(32, 2))
model = torch.compile(net, backend="aot_eager")
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
if os.environ.get("WATCH"):
    import nsa_harness
    nsa_harness.train.watch(model, optimizer)

for step in range(20):
    x = torch.randn(32, 8)
    y = (x[:, 0] * x[:, 1] > 0).long()
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("s> loss", loss.item().hex())

print("s> graphs", counters["stats"]["unique_graphs"], "breaks", sum(counters["graph_break"].values()))
print("s> sha256", fingerprint(net))
