"""The fingerprints of tensors on a card: fingerprint.ptx, which the driver compiles, without a part of torch's or CUDA's libraries. Nothing
here waits for the card."""

import ctypes
import os

THREADS = 256  # of a group, which does one chunk


class Cards:
    """Raises OSError if there is no driver, and RuntimeError if the driver refuses a call."""

    def __init__(self, torch):
        self.torch = torch
        self.driver = ctypes.CDLL("libcuda.so.1")
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "fingerprint.ptx"), "rb") as file:
            self.text = file.read() + b"\0"
        self.functions = {}  # of each device

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

    def sent(self, device, table, count):
        """`table`: rows of the library, `first` filled in. The same on the card once the current stream is there."""
        there = self.torch.empty(4 * count, dtype=self.torch.int64, device="cpu", pin_memory=True)
        ctypes.memmove(there.data_ptr(), table, 32 * count)
        return there.to(f"cuda:{device}", non_blocking=True)

    def launch(self, device, table, count, chunks):
        """The results of `count` tensors, three numbers each, in memory of the processor once the device's current stream is there."""
        torch = self.torch
        function = self.functions.get(device) or self.begin(device)
        with torch.cuda.device(device):
            results = torch.zeros(3 * count, dtype=torch.int64, device=f"cuda:{device}")
            values = ctypes.c_uint64(table.data_ptr()), ctypes.c_uint64(results.data_ptr()), ctypes.c_uint32(count)
            arguments = (ctypes.c_void_p * 3)(*map(ctypes.addressof, values))
            stream = ctypes.c_void_p(torch.cuda.current_stream(device).cuda_stream)
            self.ask("cuLaunchKernel", function, chunks, 1, 1, THREADS, 1, 1, 0, stream, arguments, None)
            here = torch.empty(3 * count, dtype=torch.int64, device="cpu", pin_memory=True)
            return here.copy_(results, non_blocking=True)
