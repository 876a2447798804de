# launch: python
"""Training that forks a child without exec and also calls external programs."""
import os
import subprocess
import sys

import torch
from torch import nn

from hashes import fingerprint


def forked_norm(model):
    """Work out the weight norm in a forked child, read it through a pipe."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(r)
        norm = sum(p.detach().double().pow(2).sum().item() for p in model.parameters()) ** 0.5
        os.write(w, norm.hex().encode())
        os.close(w)
        os._exit(0)
    os.close(w)
    with os.fdopen(r) as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    return text, os.waitstatus_to_exitcode(status)


torch.manual_seed(22)
model = nn.Sequential(nn.Linear(6, 32), nn.Softplus(), nn.Linear(32, 1))
optimizer = torch.optim.NAdam(model.parameters(), lr=5e-3)
if os.environ.get("WATCH"):
    import nsa_harness
    nsa_harness.train.watch(model, optimizer)

for step in range(20):
    x = torch.randn(32, 6)
    loss = nn.functional.mse_loss(model(x), x.norm(dim=1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    if step == 6:
        print("s> fork before step", *forked_norm(model))
    optimizer.step()
    if step == 10:
        print("s> fork after step", *forked_norm(model))
    if step == 8:
        done = subprocess.run(["sh", "-c", "echo from shell; exit 4"], capture_output=True, text=True)
        print("s> sh", done.stdout.strip(), done.returncode)
    if step == 14:
        code = "import os, sys; print(sum(range(10))); sys.exit(5)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        print("s> python", done.stdout.strip(), done.stderr.strip(), done.returncode)
    print("s> loss", loss.item().hex())

print("s> sha256", fingerprint(model))
