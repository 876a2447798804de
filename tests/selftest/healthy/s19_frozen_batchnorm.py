# launch: python
"""Fine-tune a head over a frozen backbone with BatchNorm; unlabelled batches have no backward."""
import os

import torch
from torch import nn

from hashes import fingerprint


torch.manual_seed(19)
backbone = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
)
for p in backbone.parameters():
    p.requires_grad_(False)
model = nn.Sequential(backbone, nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)  # frozen parameters included
if os.environ.get("WATCH"):
    import nsa_harness
    nsa_harness.train.watch(model, optimizer)

for step in range(24):
    model.train()
    img = torch.randn(16, 3, 10, 10)
    label = torch.randint(0, 2, (16,))
    img[label == 1, 0] += 0.7
    labelled = step % 5 != 3
    optimizer.zero_grad()
    logits = model(img)  # unlabelled batches still update the running statistics
    loss = nn.functional.cross_entropy(logits, label) if labelled else torch.zeros(())
    if loss.requires_grad:
        loss.backward()
    optimizer.step()
    print("s> loss", loss.item().hex())
    if step % 6 == 5:
        model.eval()
        with torch.no_grad():
            out = model(img)
        print("s> eval", nn.functional.cross_entropy(out, label).item().hex())

print("s> sha256", fingerprint(model))
