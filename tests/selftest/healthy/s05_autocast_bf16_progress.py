# launch: python
"""A small transformer encoder under bf16 autocast, with progress bars on stdout and stderr."""
import os
import sys

import torch
from torch import nn

from hashes import fingerprint


class Tagger(nn.Module):
    def __init__(self, vocab=40, dim=32, tags=6):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        layer = nn.TransformerEncoderLayer(dim, 4, 64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(dim, tags)

    def forward(self, tokens):
        return self.head(self.encoder(self.embed(tokens)))


torch.manual_seed(5)
model = Tagger()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95))
if os.environ.get("WATCH"):
    import nsa_harness
    nsa_harness.train.watch(model, optimizer)

STEPS, losses = 20, []
for step in range(STEPS):
    tokens = torch.randint(0, 40, (8, 12))
    tags = tokens % 6
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(tokens)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tags.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    sys.stdout.write(f"\rs> [{'#' * (step + 1):<{STEPS}}] {step + 1}/{STEPS}")
    sys.stdout.flush()
    sys.stderr.write(f"\rs> step {step + 1} loss {loss.item():.4f}")
    sys.stderr.flush()
print()
print("s> done", file=sys.stderr)

for value in losses:
    print("s> loss", value.hex())
sys.stdout.write("s> sha256 " + fingerprint(model))  # no newline at the end, on purpose
