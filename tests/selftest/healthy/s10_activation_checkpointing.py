# launch: python
"""Residual net whose blocks are recomputed in backward, reentrant and non-reentrant in turn."""
import hashlib
import os

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from hashes import fingerprint


class Net(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.stem = nn.Linear(10, dim)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.ReLU(), nn.Dropout(0.2))
            for _ in range(4)
        )
        self.head = nn.Linear(dim, 1)

    def forward(self, x):
        x = self.stem(x)
        for i, block in enumerate(self.blocks):
            x = x + checkpoint(block, x, use_reentrant=(i % 2 == 0))
        return self.head(x)


torch.manual_seed(10)
model = Net()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
if os.environ.get("WATCH"):
    import nsa_harness
    nsa_harness.train.watch(model, optimizer)

for step in range(25):
    x = torch.randn(16, 10)
    y = x.pow(2).mean(1, keepdim=True)
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("s> loss", loss.item().hex())

print("s> sha256", fingerprint(model))
print("s> rng", hashlib.sha256(bytes(torch.get_rng_state().tolist())).hexdigest())
