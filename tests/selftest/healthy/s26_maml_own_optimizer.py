# launch: python
"""MAML: inner steps by functional_call with create_graph=True, outer steps by an own optimiser."""
import os

import torch
from torch import nn
from torch.func import functional_call

from hashes import fingerprint


class SignMomentum(torch.optim.Optimizer):
    """Lion-like: the sign of an interpolated momentum, with decoupled weight decay."""

    def __init__(self, params, lr=1e-3, beta=0.9, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, beta=beta, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(m.lerp(p.grad, 0.1).sign(), alpha=-group["lr"])
                m.lerp_(p.grad, 1 - group["beta"])


def sine_task():
    amplitude, phase = torch.rand(1) * 4 + 1, torch.rand(1) * 3
    x = torch.rand(2, 10, 1) * 10 - 5
    return x, amplitude * torch.sin(x + phase)


torch.manual_seed(26)
model = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
optimizer = SignMomentum(model.parameters(), lr=2e-3, weight_decay=0.01)
if os.environ.get("WATCH"):
    import nsa_harness
    nsa_harness.train.watch(model, optimizer)

for step in range(20):
    outer = 0.0
    for _ in range(4):
        x, y = sine_task()
        fast = dict(model.named_parameters())
        for _ in range(2):
            inner = nn.functional.mse_loss(functional_call(model, fast, (x[0],)), y[0])
            grads = torch.autograd.grad(inner, tuple(fast.values()), create_graph=True)
            fast = {k: v - 0.02 * g for (k, v), g in zip(fast.items(), grads)}
        outer = outer + nn.functional.mse_loss(functional_call(model, fast, (x[1],)), y[1]) / 4
    optimizer.zero_grad()
    outer.backward()
    optimizer.step()
    print("s> loss", outer.item().hex())

print("s> sha256", fingerprint(model))
