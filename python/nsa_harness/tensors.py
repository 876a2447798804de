"""safetensors files with torch alone: numbers in their own type, in the file's order."""

import ctypes
import json
import os
import secrets
import struct

import torch

NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int64: "I64",
}
TYPES = {name: dtype for dtype, name in NAMES.items()}


def read(path):
    """(tensors by name, metadata)"""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = bytearray(file.read())
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        dtype, shape = TYPES[entry["dtype"]], entry["shape"]
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(data, dtype=dtype, count=(end - begin) // dtype.itemsize, offset=begin) if end > begin else torch.empty(0, dtype=dtype)
        tensors[name] = flat.clone().reshape(shape)
    return tensors, metadata


def write(path, tensors):
    header, parts, offset = {}, [], 0
    for name, tensor in tensors.items():
        flat = tensor.detach().cpu().contiguous()
        count = flat.numel() * flat.element_size()
        parts.append(ctypes.string_at(flat.data_ptr(), count) if count else b"")
        header[name] = {"dtype": NAMES[flat.dtype], "shape": list(tensor.shape), "data_offsets": [offset, offset + count]}
        offset += count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    # A drawn name that nobody can have planted; the file is there whole or not at all.
    draft = os.path.join(os.path.dirname(path), ".nsa-" + secrets.token_hex(8))
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(parts)
    os.replace(draft, path)
