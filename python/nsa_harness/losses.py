"""The loss of each step: the sum of the tensors that the backwards of the step began with, in float64. It is finite exactly where
all of them are. Nothing waits for the card."""

import weakref

from nsa_harness.values import local


class Losses:
    def __init__(self, torch):
        self.torch = torch
        self.parts = []  # of this step: numbers, or tensors of one number that hold it once their device is there
        self.devices = set()  # cards that some are copied from
        self.unscaled = None  # (weak reference to what the last GradScaler.scale gave, what it was given)
        self._watch_scaler()

    def _watch_scaler(self):
        """A scaled loss may overflow by right. What GradScaler was given is the loss."""
        scaler = getattr(getattr(self.torch, "amp", None), "GradScaler", None)
        if scaler is None:
            return
        scale, losses = scaler.scale, self

        def scale_seen(scaler, outputs):
            scaled = scale(scaler, outputs)
            if isinstance(outputs, losses.torch.Tensor) and scaled is not outputs:
                losses.unscaled = (weakref.ref(scaled), outputs.detach())
            return scaled

        scale_seen.__wrapped__ = scale
        scaler.scale = scale_seen

    def begin(self, roots):
        """A backward begins with `roots`: a tensor, several, or edges of the graph, which have no values."""
        torch = self.torch
        for root in [roots] if isinstance(roots, torch.Tensor) or hasattr(roots, "node") else roots:
            if not isinstance(root, torch.Tensor):
                continue
            if self.unscaled is not None and self.unscaled[0]() is root:
                root, self.unscaled = self.unscaled[1], None
            values = local(root.detach())
            if values.is_complex():
                values = torch.view_as_real(values)
            if values.numel() != 1:
                values = values.sum(dtype=torch.float32 if values.device.type == "mps" else torch.float64)
            # Now: the script may write another one to the tensor before the step ends.
            self.parts.append(float(values) if values.is_cpu else self.copy(values))

    def copy(self, value):
        if not value.is_cuda:
            return value.clone()
        here = self.torch.empty_like(value, device="cpu", pin_memory=True)
        self.devices.add(value.get_device())
        return here.copy_(value, non_blocking=True)

    def take(self, wait_for, tell):
        """The step ends: `tell(loss)`, with cards by `wait_for(cards, function)` once it is there."""
        parts, self.parts = self.parts, []
        if not self.devices:
            tell(sum(map(float, parts)))
            return
        devices, self.devices = self.devices, set()
        wait_for(devices, lambda *_: tell(sum(map(float, parts))))
