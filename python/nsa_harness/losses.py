"""The loss of each step: the sum of the tensors that the backwards of the step began with, in float64. It is finite exactly where
all of them are. Nothing waits for the card."""

import weakref

from nsa_harness.values import local


class Losses:
    def __init__(self, torch):
        self.torch = torch
        self.parts = []  # of this step: tensors without dimensions
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
            self.parts.append(values.sum(dtype=torch.float32 if values.device.type == "mps" else torch.float64))

    def take(self, settle, tell):
        """The step ends: `tell(loss)` once it is there. `settle` as of the recorder. REQUIRES: parts."""
        parts, self.parts = self.parts, []
        torch = self.torch
        total = parts[0] if len(parts) == 1 else torch.stack([part.to(parts[-1].device) for part in parts]).sum()
        if not total.is_cuda:
            tell(float(total))
            return
        here = torch.empty((), dtype=total.dtype, pin_memory=True)
        here.copy_(total, non_blocking=True)
        settle(lambda: tell(float(here)), True)
