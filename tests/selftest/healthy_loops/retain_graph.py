# launch: python
"""Two backwards through one graph, the first with retain_graph, and one step; one process."""
import torch
from torch import nn

from ending import say_end, watch

torch.manual_seed(31)
model = nn.Sequential(nn.Linear(6, 18), nn.Tanh(), nn.Linear(18, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
watch(model, optimizer)
for step in range(20):
    x = torch.randn(8, 6)
    out = model(x)
    optimizer.zero_grad()
    (out[:, 0] - x.sum(1)).square().mean().backward(retain_graph=True)
    loss = (out[:, 1] - x.prod(1)).square().mean()
    loss.backward()
    optimizer.step()
say_end(loss, model)
