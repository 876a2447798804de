# launch: python
"""A toy GAN on a ring of Gaussians with two models and two optimisers."""
import math
import os

import torch
from torch import nn

from hashes import fingerprint


def real_batch(n):
    angle = torch.randint(0, 8, (n,)) * (2 * math.pi / 8)
    return torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(n, 2)


torch.manual_seed(8)
gen = nn.Sequential(nn.Linear(4, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2))
disc = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(2, 32)),
                     nn.LeakyReLU(0.2), nn.Linear(32, 1))
opt_g = torch.optim.Adam(gen.parameters(), lr=1e-3, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(disc.parameters(), lr=2e-3, betas=(0.5, 0.999))
if os.environ.get("WATCH"):
    import nsa_harness
    nsa_harness.train.watch(gen, opt_g)
    nsa_harness.train.watch(disc, opt_d)
bce = nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(32, 1), torch.zeros(32, 1)

for step in range(40):
    # discriminator
    fake = gen(torch.randn(32, 4))
    loss_d = bce(disc(real_batch(32)), ones) + bce(disc(fake.detach()), zeros)
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()
    # generator: its backward also leaves gradients in disc, cleared at the next zero_grad
    loss_g = bce(disc(fake), ones)
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
    print("s> loss d", loss_d.item().hex(), "g", loss_g.item().hex())

print("s> sha256 gen", fingerprint(gen))
print("s> sha256 disc", fingerprint(disc))
