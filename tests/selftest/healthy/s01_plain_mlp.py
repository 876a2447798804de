# launch: python
"""Regress a noisy sine with a small MLP."""
import os

import torch
from torch import nn

from hashes import fingerprint

torch.manual_seed(1)


x = torch.linspace(-3, 3, 256).unsqueeze(1)
y = torch.sin(2 * x) + 0.05 * torch.randn_like(x)

model = nn.Sequential(
    nn.Linear(1, 32), nn.Tanh(),
    nn.Linear(32, 32), nn.Tanh(), nn.Dropout(0.05),
    nn.Linear(32, 1),
)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
if os.environ.get("WATCH"):
    import nsa_harness
    nsa_harness.train.watch(model, optimizer)
loss_fn = nn.MSELoss()

for epoch in range(12):
    order = torch.randperm(len(x))
    for batch in order.split(64):
        optimizer.zero_grad()
        loss = loss_fn(model(x[batch]), y[batch])
        loss.backward()
        optimizer.step()
        print("s> loss", loss.item().hex())

print("s> sha256", fingerprint(model))
