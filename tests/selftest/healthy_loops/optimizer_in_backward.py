# launch: python
"""Each parameter has its own optimiser, which steps in a hook as soon as the gradient is there."""
import torch
from torch import nn

from ending import say_end, watch

torch.manual_seed(21)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
optimizers = {p: torch.optim.SGD([p], lr=0.05, momentum=0.9) for p in model.parameters()}


def step_now(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for p in model.parameters():
    p.register_post_accumulate_grad_hook(step_now)
for optimizer in optimizers.values():
    watch(model, optimizer)
for step in range(25):
    x = torch.randn(16, 8)
    loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long())
    loss.backward()
say_end(loss, model)
