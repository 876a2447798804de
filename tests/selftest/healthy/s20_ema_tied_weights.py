# launch: python
"""A tiny GRU language model with tied embeddings; EMA weights are updated after each step."""
import copy
import os

import torch
from torch import nn

from hashes import fingerprint


class LM(nn.Module):
    def __init__(self, vocab=30, dim=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, vocab)
        self.out.weight = self.embed.weight  # tied
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, tokens):
        if self.training:
            self.steps += 1
        return self.out(self.rnn(self.embed(tokens))[0])


def nll(model, seq):
    return nn.functional.cross_entropy(model(seq[:, :-1]).flatten(0, 1), seq[:, 1:].flatten())


torch.manual_seed(20)
model = LM()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
if os.environ.get("WATCH"):
    import nsa_harness
    nsa_harness.train.watch(model, optimizer)
ema = copy.deepcopy(model).eval().requires_grad_(False)
valid = (torch.arange(12) * 3 + torch.arange(8).unsqueeze(1)) % 30

for step in range(25):
    start = torch.randint(0, 30, (16, 1))
    seq = (start + 3 * torch.arange(12)) % 30
    optimizer.zero_grad()
    loss = nll(model, seq)
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for e, p in zip(ema.parameters(), model.parameters()):
            e.lerp_(p, 0.1)
        for e, b in zip(ema.buffers(), model.buffers()):
            e.copy_(b)
        val = nll(ema, valid)
    print("s> loss", loss.item().hex(), "ema", val.item().hex())

print("s> tied", model.out.weight is model.embed.weight, ema.out.weight is ema.embed.weight)
print("s> sha256 model", fingerprint(model))
print("s> sha256 ema", fingerprint(ema))
