# launch: python
# told: FAIL NAN.ORIGIN
"""fp16 autocast with a CPU GradScaler; a too large scale and a bad batch make it skip steps."""
import os

import torch
from torch import nn

from hashes import fingerprint


torch.manual_seed(4)
model = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
if os.environ.get("WATCH"):
    import nsa_harness
    nsa_harness.train.watch(model, optimizer)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=8)

centers = torch.randn(3, 16) * 2
skipped = 0
for step in range(30):
    y = torch.randint(0, 3, (32,))
    x = centers[y] + torch.randn(32, 16)
    if step == 17:
        x[5, 3] = 3e38  # one corrupt sample: the scaler must skip the update
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    if scaler.get_scale() < before:
        skipped += 1
    print("s> loss", loss.item().hex(), "scale", scaler.get_scale())

print("s> skipped", skipped)
print("s> sha256", fingerprint(model))
