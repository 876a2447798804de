# launch: torchrun 2
"""Both ranks poll a file for a minute, beside helpers that do nothing: resource tracker, a pool, a logger with a queue."""
import logging
import logging.handlers
import multiprocessing
import multiprocessing.shared_memory
import os
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ending import say_end, watch

SECONDS = 60


def square(number):
    return number * number


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(5)
    model = DistributedDataParallel(nn.Linear(16, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    watch(model, optimizer)
    data = torch.Generator().manual_seed(rank)
    shared = multiprocessing.shared_memory.SharedMemory(create=True, size=4096)
    lines = multiprocessing.Queue()
    listener = logging.handlers.QueueListener(lines, logging.StreamHandler())
    listener.start()
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(square, range(4))
        folder = os.path.join(tempfile.gettempdir(), f"waits_{os.getppid()}")
        os.makedirs(folder, exist_ok=True)
        ready = os.path.join(folder, "ready")
        writer = None
        if rank == 0:
            code = f"import time; time.sleep({SECONDS}); open({ready!r}, 'w').close()"
            writer = subprocess.Popen([sys.executable, "-c", code])
        while not os.path.exists(ready):
            time.sleep(1)
        for step in range(8):
            loss = model(torch.randn(4, 16, generator=data)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if writer:
            writer.wait()
            dist.barrier()
            os.remove(ready)
            os.rmdir(folder)
        else:
            dist.barrier()
    listener.stop()
    shared.close()
    shared.unlink()
    say_end(loss, model)


if __name__ == "__main__":
    main()
