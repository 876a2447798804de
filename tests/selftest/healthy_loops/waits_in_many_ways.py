# launch: torchrun 2
"""Long moments between steps: rank 1 sleeps 20 s, one operator runs for about 20 s, rank 0 waits for a child that computes for 40 s (as a
compiler does), the other rank stands in a collective meanwhile."""
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

BURN = "import time\nend = time.monotonic() + 40\nwhile time.monotonic() < end: pass"


def one_operator():
    """A decomposition whose size is doubled until it takes as long as it should."""
    size, took = 512, 0.0
    while took < 20:
        matrix = torch.randn(size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        begin = time.monotonic()
        torch.linalg.svdvals(matrix)
        took = time.monotonic() - begin
        size = int(size * 1.6)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(6)
    torch.set_num_threads(1)
    model = DistributedDataParallel(nn.Linear(16, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    watch(model, optimizer)
    data = torch.Generator().manual_seed(rank)
    for step in range(8):
        if step == 2 and rank == 1:
            time.sleep(20)
        if step == 4 and rank == 1:
            one_operator()
        if step == 6 and rank == 0:
            subprocess.run([sys.executable, "-c", BURN], check=True)
        loss = model(torch.randn(4, 16, generator=data)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    say_end(loss, model)


if __name__ == "__main__":
    main()
