"""What the loops of this folder share: the two lines, which LINES=0 leaves out, and what a loop prints at its end."""
import hashlib
import os
import time

import torch
import torch.distributed as dist

try:
    if os.environ.get("LINES") == "0":
        raise ImportError
    import nsa_harness
except ImportError:
    nsa_harness = None


def watch(model, optimizer):
    if nsa_harness:
        nsa_harness.train.watch(model, optimizer)


def piece(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def say_end(loss, *modules):
    """The loss and a sha256 of all weights and buffers of this rank, to the last bit."""
    digest = hashlib.sha256()
    for module in modules:
        for name, tensor in sorted(module.state_dict().items()):
            raw = piece(tensor.detach()).contiguous().reshape(-1).view(torch.uint8)
            digest.update(name.encode() + bytes(raw.tolist()))
    rank = dist.get_rank() if dist.is_initialized() else 0
    print(f"s> rank {rank} loss {float(loss).hex()} weights {digest.hexdigest()}", flush=True)
    if dist.is_initialized():
        time.sleep(0.5)  # gloo's threads may hold tensors a little longer: abort at exit, pytorch#179291
        dist.destroy_process_group()
