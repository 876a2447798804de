# launch: python
"""A complex parameter that filters spectra; one process."""
import torch
from torch import nn

from ending import say_end, watch

torch.manual_seed(39)


class Spectral(nn.Module):
    def __init__(self):
        super().__init__()
        self.filter = nn.Parameter(torch.randn(9, dtype=torch.complex64) * 0.1)
        self.head = nn.Linear(16, 16)

    def forward(self, x):
        return self.head(torch.fft.irfft(torch.fft.rfft(x) * self.filter, n=16))


model = Spectral()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
watch(model, optimizer)
for step in range(25):
    x = torch.randn(8, 16)
    loss = nn.functional.mse_loss(model(x), x.roll(1, 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
say_end(loss, model)
