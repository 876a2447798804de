# launch: python
"""Decay / no-decay / head parameter groups, warm-up plus cosine schedule, gradient clipping."""
import os

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

from hashes import fingerprint


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(24, 48), nn.LayerNorm(48), nn.SiLU(),
                                  nn.Linear(48, 48), nn.LayerNorm(48), nn.SiLU())
        self.head = nn.Linear(48, 1)

    def forward(self, x):
        return self.head(self.body(x)).squeeze(1)


torch.manual_seed(6)
model = Net()
decay = [p for p in model.body.parameters() if p.ndim > 1]
no_decay = [p for p in model.body.parameters() if p.ndim <= 1]
optimizer = torch.optim.AdamW([
    {"params": decay, "weight_decay": 0.1},
    {"params": no_decay, "weight_decay": 0.0},
], lr=1e-3)
if os.environ.get("WATCH"):
    import nsa_harness
    nsa_harness.train.watch(model, optimizer)
optimizer.add_param_group({"params": model.head.parameters(), "lr": 5e-3, "weight_decay": 0.0})

scheduler = SequentialLR(optimizer, [
    LinearLR(optimizer, start_factor=0.1, total_iters=8),
    CosineAnnealingLR(optimizer, T_max=32, eta_min=1e-5),
], milestones=[8])

weight = torch.randn(24)
for step in range(40):
    x = torch.randn(32, 24)
    target = torch.tanh(x @ weight)
    loss = nn.functional.smooth_l1_loss(model(x), target)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.25)
    optimizer.step()
    scheduler.step()
    rates = " ".join(f"{lr:.3e}" for lr in scheduler.get_last_lr())
    print("s> loss", loss.item().hex(), "norm", norm.item().hex(), "lr", rates)

print("s> sha256", fingerprint(model))
