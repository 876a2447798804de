"""The fingerprints of tensors on a card: fingerprint.ptx, which the driver compiles, without a part of torch's or CUDA's libraries. Nothing
here waits for the card. A launch is one call: the card writes its results to memory that the processor reads."""

import ctypes
import os

THREADS = 256  # of a group, which does one chunk
SMALL = 16  # tensors: a table of so few is read where the processor wrote it
ROOM = 4096  # bytes: rooms are of so many, times a power of two
PORTABLE_AND_MAPPED = 3  # CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP


class Cards:
    """Raises OSError if there is no driver, and RuntimeError if the driver refuses a call."""

    def __init__(self, torch):
        self.torch = torch
        self.driver = ctypes.CDLL("libcuda.so.1")
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "fingerprint.ptx"), "rb") as file:
            self.text = file.read() + b"\0"
        self.functions = {}  # of each device
        self.rooms = {}  # bytes -> addresses of rooms that nobody uses

    def begin(self, device):
        """Compiles and loads what a first launch would. That may wait for the card, so no step does it that could be spared."""
        with self.torch.cuda.device(device):
            self.torch.cuda.current_stream().cuda_stream  # noqa: B018: the context of the device is the current one now
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            self.ask("cuModuleLoadData", ctypes.byref(module), self.text)
            self.ask("cuModuleGetFunction", ctypes.byref(function), module, b"nsa_fingerprints")
            self.functions[device] = function
        return function

    def ask(self, name, *arguments):
        code = getattr(self.driver, name)(*arguments)
        if code:
            raise RuntimeError(f"{name} of the driver failed with code {code}")

    def room(self, device, bytes):
        """(bytes of the room, address) of memory that the processor and every card reach at this address. give_back() ends its use."""
        size = ROOM << max(0, (bytes - 1) // ROOM).bit_length()
        free = self.rooms.setdefault(size, [])
        if free:
            return size, free.pop()
        with self.torch.cuda.device(device):
            address = ctypes.c_void_p()
            self.ask("cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(size), PORTABLE_AND_MAPPED)
        return size, address.value

    def give_back(self, room):
        """REQUIRES: no card uses it."""
        self.rooms[room[0]].append(room[1])

    def sent(self, device, table, count):
        """`table`: rows of the library, `first` filled in. Its address on the card, once the current stream is there, and what holds it."""
        there = self.torch.empty(4 * count, dtype=self.torch.int64, device="cpu", pin_memory=True)
        ctypes.memmove(there.data_ptr(), table, 32 * count)
        held = there.to(f"cuda:{device}", non_blocking=True)
        return held.data_ptr(), held

    def launch(self, device, stream, table, count, chunks, results):
        """Three numbers of each of the chunks at `results`, a room's, once the stream is there. `table`: an address that the card reaches."""
        function = self.functions.get(device) or self.begin(device)
        values = ctypes.c_uint64(table), ctypes.c_uint64(results), ctypes.c_uint32(count)
        arguments = (ctypes.c_void_p * 3)(*map(ctypes.addressof, values))
        with self.torch.cuda.device(device):
            self.ask("cuLaunchKernel", function, chunks, 1, 1, THREADS, 1, 1, 0, ctypes.c_void_p(stream), arguments, None)
