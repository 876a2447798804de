# launch: python
"""Two workers started by torch.multiprocessing.spawn; DDP with gradient_as_bucket_view=True."""
import os
import socket
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from hashes import fingerprint, gather_hashes


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def worker(rank, world, port):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(14)
    net = nn.Sequential(nn.Linear(16, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 1))
    model = DDP(net, gradient_as_bucket_view=True, bucket_cap_mb=0.02)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    if os.environ.get("WATCH"):
        import nsa_harness
        nsa_harness.train.watch(model, optimizer)

    gen = torch.Generator().manual_seed(rank)
    for step in range(15):
        x = torch.randn(32, 16, generator=gen)
        loss = nn.functional.mse_loss(model(x), x.prod(1, keepdim=True).sign())
        optimizer.zero_grad(set_to_none=(step % 2 == 0))
        loss.backward()
        optimizer.step()
        if rank == 0:
            print("s> loss", loss.item().hex(), flush=True)

    hashes = gather_hashes(fingerprint(model))
    if rank == 0:
        for r, h in enumerate(hashes):
            print(f"s> rank {r} sha256 {h}", flush=True)
    time.sleep(0.5)  # gloo threads may hold tensors a little longer: abort at exit, pytorch#179291
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, args=(2, free_port()), nprocs=2)
    print("s> all workers finished")
