"""What of a model can be judged, and what cannot, with the reason.

A *piece* names what a rank holds of a parameter: ranks with equal pieces must hold equal values. "" stands for the whole."""

from nsa_harness.values import is_dtensor, piece

FULLY_SHARDED = (["Shard"], ["Replicate", "Shard"])  # the placements that fully_shard gives


class Scope:
    """`params`: (name, parameter) of those that are recorded; `frozen`: of those that want no gradient. `not_judged`: sentences
    "WHAT, because WHY". `others`: ids of parameters that are left out without a word."""

    def __init__(self, model, prefix="", others=frozenset()):
        self.not_judged = []
        self.tells_batches = True
        self._compared = True
        kinds = {kind.__name__ for module in model.modules() for kind in type(module).__mro__}
        hidden = _below(model, "FullyShardedDataParallel")
        by_hand, names = [], []
        self.params, self.frozen = [], []
        for name, param in model.named_parameters():
            if id(param) in others:
                continue
            name = prefix + name.replace("_orig_mod.", "")
            is_hidden = id(param) in hidden
            is_by_hand = is_dtensor(param) and not ("FSDPModule" in kinds and _placements(param) in FULLY_SHARDED)
            if not param.requires_grad:
                self.frozen += [] if is_hidden or is_by_hand else [(name, param)]
            elif is_hidden:
                names.append(name)
            elif is_by_hand:
                by_hand.append((name, _placements(param)))
            else:
                self.params.append((name, param))
        if names:
            self._leave_out(names, "FullyShardedDataParallel hides their values and gradients (fully_shard shows them)")
        if by_hand:
            placed = sorted({", ".join(placements) for _, placements in by_hand})
            self._leave_out(
                [name for name, _ in by_hand],
                f"they are DTensors placed as {' or '.join(placed)}, and how their gradients come to agree is not known; "
                "known is what fully_shard places",
            )
            self.not_judged.append(
                "whether ranks have equal gradients and weights and read different batches, because in a model with DTensors "
                "that fully_shard did not place ranks may share batches and hold different parts"
            )
            self._compared = self.tells_batches = False
        if not self.params and not self.not_judged:
            self.not_judged.append("gradients and weights, because no parameter of the model wants a gradient")

    def _leave_out(self, names, why):
        first = f", first {names[0]}" if len(names) > 1 else f", {names[0]}"
        self.not_judged.append(f"{counted(len(names), 'parameter')}{first}, because {why}")

    def piece(self, param, rank):
        """{"piece": NAME}; {} for the whole."""
        return piece(param) if self._compared else {"piece": f"rank {rank}"}


def _below(model, kind):
    """ids of the parameters of modules of this kind, by the name of the class or of a base."""
    modules = [module for module in model.modules() if any(base.__name__ == kind for base in type(module).__mro__)]
    return {id(param) for module in modules for param in module.parameters()}


def _placements(param):
    return [type(placement).__name__ for placement in param.placements]


def counted(count, noun):
    return f"{count} {noun}{'' if count == 1 else 's'}"
