"""What optimisers hold, and which of them is a part of another one."""

import weakref

from nsa_harness.scope import counted

FIRST_UPDATES = 3  # in which it is looked at what an optimiser holds: a part may be seen after it


def params_of(optimizer):
    return [param for group in getattr(optimizer, "param_groups", ()) for param in group["params"]]


def held(optimizer):
    """ids of its parameters."""
    return {id(param) for param in params_of(optimizer)}


def stands_around(optimizer, others):
    """How many of the others it holds: it calls their steps."""
    values = {id(value) for value in vars(optimizer).values()}
    return sum(id(other) in values for other in others)


def is_one_of(optimizer, others):
    """It calls one of the others, or one of them calls it: their steps are one."""
    return stands_around(optimizer, others) > 0 or any(stands_around(other, [optimizer]) for other in others)


class Strangers:
    """Parameters that an optimiser holds and that no watched model has. If they are copies that the script writes into its weights, they are
    judged by these. Else nothing is known of them: nothing that we know reduces their gradients, or the model was made anew."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.fresh = weakref.WeakKeyDictionary()  # optimiser -> how often it was looked at
        self.count = 0
        self.are_written_back = None  # after each update so far

    def look(self, optimizer):
        """The optimiser has taken a step."""
        if optimizer not in self.fresh:
            return
        self.fresh[optimizer] += 1
        parts, params = self.recorder.parts, held(optimizer)
        for part in [part for part in parts if part.holds(params)] or parts:
            part.is_trained = True
        own = set().union(*(part.ids for part in parts))
        strange = [param for param in params_of(optimizer) if id(param) not in own]
        self.count = max(self.count, len(strange))
        if self.fresh[optimizer] == FIRST_UPDATES:
            del self.fresh[optimizer]
            for param in strange:
                if param.requires_grad and param.is_leaf:
                    param.register_post_accumulate_grad_hook(self.recorder.guard(self.are_trained))

    def are_trained(self, _):
        """A backward gave one of them a gradient, so it is no copy."""
        self.are_written_back = False

    def written(self, is_written):
        """Whether the script has written to the weights between an update and the next forward."""
        self.are_written_back = is_written and self.are_written_back is not False

    def are_settled(self, optimizer):
        """It has taken its first updates, and what it keeps for them is there."""
        return self.steps_of(optimizer) >= FIRST_UPDATES

    def steps_of(self, optimizer):
        """How many it took, up to FIRST_UPDATES."""
        return self.fresh.get(optimizer, FIRST_UPDATES)

    def tell(self):
        for part in self.recorder.parts:
            if not part.is_trained and any(one.is_trained for one in self.recorder.parts):
                names = counted(len(part.params), "parameter")
                self.recorder.not_judged(f"{names} of {type(part.inner).__name__} ({part.prefix}*), because no optimiser took a step with them")
        if self.count and not self.are_written_back:
            self.recorder.not_judged(f"{counted(self.count, 'parameter')} of the optimiser, because the model does not have them")
