# launch: python
"""The first step waits two minutes for the compiler of a kernel, a child that computes; the main thread waits in communicate()."""
import os
import subprocess
import sys
import tempfile

import torch
from torch import nn

from ending import say_end, watch

BURN = "import time\nend = time.monotonic() + 120\nwhile time.monotonic() < end: pass"


def main():
    torch.manual_seed(7)
    model = nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    watch(model, optimizer)
    with tempfile.TemporaryDirectory() as folder:
        compiler = os.path.join(folder, "ptxas")
        os.symlink(sys.executable, compiler)
        environment = dict(os.environ, PYTHONHOME=sys.base_prefix)
        for step in range(4):
            if step == 1:
                done = subprocess.run([compiler, "-c", BURN], env=environment, capture_output=True, check=False)
                assert done.returncode == 0, done.stderr
            loss = model(torch.randn(4, 16)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    say_end(loss, model)


if __name__ == "__main__":
    main()
