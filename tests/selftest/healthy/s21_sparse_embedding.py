# launch: python
"""Matrix factorisation with sparse gradients: SparseAdam for the tables, SGD for the biases."""
import os

import torch
from torch import nn

from hashes import fingerprint


class Factorise(nn.Module):
    def __init__(self, users=200, items=150, dim=16):
        super().__init__()
        self.user = nn.Embedding(users, dim, sparse=True)
        self.item = nn.Embedding(items, dim, sparse=True)
        self.bias = nn.Linear(dim, 1)

    def forward(self, u, i):
        both = self.user(u) * self.item(i)
        return both.sum(1) + self.bias(both).squeeze(1)


torch.manual_seed(21)
model = Factorise()
sparse_opt = torch.optim.SparseAdam([model.user.weight, model.item.weight], lr=0.02)
if os.environ.get("WATCH"):
    import nsa_harness
    nsa_harness.train.watch(model, sparse_opt)
dense_opt = torch.optim.SGD(model.bias.parameters(), lr=0.01)

for step in range(30):
    u = torch.randint(0, 200, (64,))
    i = torch.randint(0, 150, (64,))
    rating = ((u * 7 + i * 3) % 5).float() - 2
    loss = nn.functional.mse_loss(model(u, i), rating)
    sparse_opt.zero_grad()
    dense_opt.zero_grad()
    loss.backward()
    layouts = {str(p.grad.layout) for p in (model.user.weight, model.item.weight)}
    sparse_opt.step()
    dense_opt.step()
    print("s> loss", loss.item().hex(), *sorted(layouts))

print("s> sha256", fingerprint(model))
