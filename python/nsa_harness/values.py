"""What is told of tensors: type, hash, norm as a number of JSON, and which piece of a sharded parameter a rank holds."""

import ctypes
import hashlib
from collections.abc import Mapping


def is_dtensor(param):
    return type(param).__name__ == "DTensor" or type(param.data).__name__ == "DTensor"


def local(tensor):
    return tensor.to_local() if type(tensor).__name__ == "DTensor" else tensor


def piece(param):
    """Which piece of a sharded parameter this rank holds: ranks with the same number hold the same. Nothing for the whole."""
    if not is_dtensor(param):
        return {}
    at = zip(param.device_mesh.get_coordinate(), param.placements)
    return {"piece": ",".join(str(place) for place, placement in at if type(placement).__name__ == "Shard")}


def fully_sharded(model):
    """The groups of parameters that fully_shard made, which it gathers and reduces together; nothing where this torch keeps them elsewhere."""
    for module in model.modules():
        if hasattr(module, "_get_fsdp_state"):
            state = module._get_fsdp_state()
            groups = getattr(state, "_fsdp_param_groups", None) or [getattr(state, "_fsdp_param_group", None)]
            yield from (group for group in groups if group is not None)


def tensors_in(value, torch):
    """The tensors in what a module gives, or a collective is given."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    return [tensor for part in value for tensor in tensors_in(part, torch)] if isinstance(value, (list, tuple)) else []


def holds_nan(tensor):
    """Of a type that torch can look at."""
    try:
        return bool(local(tensor.detach()).isnan().any())
    except (RuntimeError, NotImplementedError):
        return False


DTYPES = {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int64": "Long", "int32": "Int"}


def dtype_name(tensor):
    name = str(tensor.dtype).removeprefix("torch.")
    return DTYPES.get(name, name)


def real(value):
    if value != value:
        return "NaN"
    return value if abs(value) != float("inf") else ("Infinity" if value > 0 else "-Infinity")


def hash_of(tensors):
    """Of shapes, types and bytes."""
    digest = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        whole = local(tensor.detach()).cpu().contiguous()
        digest.update(f"{tuple(whole.shape)} {whole.dtype};".encode())
        digest.update(ctypes.string_at(whole.data_ptr(), whole.numel() * whole.element_size()))
    return digest.hexdigest()
