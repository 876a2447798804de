"""What the scripts of this folder print at their end, so that two runs of one can be compared to the last bit."""
import hashlib

import torch
import torch.distributed as dist


def fingerprint(module):
    digest = hashlib.sha256()
    tensors = dict(module.named_parameters())
    tensors.update(module.named_buffers())
    for name in sorted(tensors):
        raw = tensors[name].detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(name.encode())
        digest.update(bytes(raw.tolist()))
    return digest.hexdigest()


def gather_hashes(hexdigest):
    mine = torch.tensor(list(bytes.fromhex(hexdigest)), dtype=torch.uint8)
    parts = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, mine)
    return [bytes(part.tolist()).hex() for part in parts]
