# launch: python
# told: CRASH CRASH.EXCEPTION
"""User hooks everywhere and a custom autograd.Function; a quality gate raises after training."""
import os
from collections import Counter

import torch
from torch import nn

from hashes import fingerprint


class StraightThroughRound(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, step):
        ctx.save_for_backward(x)
        return torch.round(x / step) * step

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() < 2), None


class Quantised(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 24), nn.Linear(24, 1)

    def forward(self, x):
        return self.b(StraightThroughRound.apply(torch.tanh(self.a(x)), 0.25))


def damp(p):
    p.grad.mul_(0.9)


torch.manual_seed(24)
calls = Counter()
model = Quantised()
model.a.register_full_backward_hook(lambda m, gin, gout: calls.update(["module backward"]))
model.b.register_full_backward_pre_hook(lambda m, gout: (gout[0] * 0.5,))  # changes the gradient
model.a.weight.register_hook(lambda g: g.clamp(-0.1, 0.1))  # so does this one
model.register_forward_hook(lambda m, args, out: calls.update(["forward"]))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
optimizer.register_step_pre_hook(lambda opt, args, kwargs: calls.update(["step pre"]))
if os.environ.get("WATCH"):
    import nsa_harness
    nsa_harness.train.watch(model, optimizer)
optimizer.register_step_post_hook(lambda opt, args, kwargs: calls.update(["step post"]))
model.b.weight.register_post_accumulate_grad_hook(damp)
handle = model.b.bias.register_hook(lambda g: g * 2)

for step in range(30):
    x = torch.randn(32, 8)
    loss = nn.functional.mse_loss(model(x), x[:, :1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("s> loss", loss.item().hex(), "grad", model.a.weight.grad.abs().max().item().hex())
    if step == 15:
        handle.remove()

for name, count in sorted(calls.items()):
    print("s> hook", name, count)
print("s> sha256", fingerprint(model), flush=True)
raise RuntimeError(f"quality gate: loss {loss.item():.4f} is above 0.0001")
