# launch: torchrun 2
"""DDP with a hand written bf16 compression hook, registered before and after the optimiser."""
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from hashes import fingerprint, gather_hashes


class HookState:
    def __init__(self):
        self.calls = 0


def bf16_hook(state, bucket):
    state.calls += 1
    compressed = bucket.buffer().to(torch.bfloat16).div_(dist.get_world_size())
    future = dist.all_reduce(compressed, async_op=True).get_future()

    def decompress(fut):
        out = bucket.buffer()
        out.copy_(fut.value()[0])
        return out

    return future.then(decompress)


def train(hook_first, rank):
    torch.manual_seed(13)
    state = HookState()
    model = DDP(nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4)))
    if hook_first:
        model.register_comm_hook(state, bf16_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    if os.environ.get("WATCH"):
        import nsa_harness
        nsa_harness.train.watch(model, optimizer)
    if not hook_first:
        model.register_comm_hook(state, bf16_hook)

    gen = torch.Generator().manual_seed(rank)
    for step in range(12):
        x = torch.randn(32, 16, generator=gen)
        loss = nn.functional.cross_entropy(model(x), x[:, :4].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print("s> loss", loss.item().hex())
    hashes = gather_hashes(fingerprint(model))
    if rank == 0:
        print(f"s> hook_first={hook_first} hook calls {state.calls}")
        for r, h in enumerate(hashes):
            print(f"s> rank {r} sha256 {h}")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    for first in (True, False):
        train(first, dist.get_rank())
    time.sleep(0.5)  # gloo threads may hold tensors a little longer: abort at exit, pytorch#179291
    dist.destroy_process_group()
