# launch: python
# told: CRASH CRASH.EXCEPTION
"""Fit a small network with L-BFGS; exit status 3 tells the caller the tolerance was not met."""
import os
import sys

import torch
from torch import nn

from hashes import fingerprint


torch.manual_seed(7)
x = torch.rand(200, 2) * 2 - 1
y = (x[:, :1] ** 2 - 0.5 * x[:, 1:]).sin()

model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.8, max_iter=6, history_size=8,
                              line_search_fn="strong_wolfe")
if os.environ.get("WATCH"):
    import nsa_harness
    nsa_harness.train.watch(model, optimizer)

evaluations = 0


def closure():
    global evaluations
    evaluations += 1
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss


for step in range(10):
    loss = optimizer.step(closure)
    print("s> loss", loss.item().hex(), "evaluations", evaluations)

print("s> sha256", fingerprint(model))
with torch.no_grad():
    final = nn.functional.mse_loss(model(x), y).item()
if final > 1e-9:
    print("s> tolerance not met")
    sys.exit(3)
