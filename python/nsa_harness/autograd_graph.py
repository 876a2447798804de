"""Which parameters the losses of a step lead to: the graph is walked back from everything that a backward begins at, before it runs.

The walk arrives at a parameter, or it does not, or nothing is known of it: no backward was seen, or the way leads through a piece
that torch.compile made, whose inside has no graph."""

import functools

from nsa_harness.values import fully_sharded

UNKNOWN = "unknown"
# Gives each of its inputs as the output of the same place; a gradient of one says nothing of the others.
PASSES_THROUGH = "_DDPSinkBackward"
COMPILED = "CompiledFunction"  # how the name of a compiled piece's node begins
WHOLE = "_unsharded_param"  # what fully_shard puts in the place of a piece while it is computed with


class Reach:
    def __init__(self, torch):
        self.torch = torch
        self.models, self.names, self.sharded = [], {}, set()
        self.inside = 0  # how many backwards are at work, one within the other
        self.begin()

    def add(self, model, params):
        """`params`: of the script, by name. `model`: for what a sharded one computes with in their place."""
        self.models.append(model)
        self.names.update((id(param), name) for name, param in params)
        self.sharded.update(name for name, param in params if type(param).__name__ == "DTensor")
        if not self.walked:
            self.begin()

    def begin(self):
        """A new step."""
        self.walked = False
        self.certain, self.perhaps = set(), set()  # names
        self.known = set(self.names.values()) - self.sharded  # the names that the walk can find

    def watch_backward(self, is_recorded, begins=lambda roots: None, walk=None, ends=lambda: None):
        """Every backward that a script or torch itself (checkpointing) starts by torch.autograd.backward or Tensor.backward.
        `begins` is called before each that is not a part of another one and `ends` after it, unless it raises; `walk` (self.walk, or
        what stands around it) before each of a recorded step."""
        autograd, outside = self.torch.autograd, self.torch.compiler.disable
        walk, begins, ends, function = outside(walk or self.walk), outside(begins), outside(ends), autograd.backward

        @functools.wraps(function)
        def backward(tensors, *args, **kwargs):
            if not self.inside:
                begins(tensors)
            if is_recorded():
                walk(tensors, kwargs.get("inputs", args[4] if len(args) > 4 else None))
            self.inside += 1
            try:
                result = function(tensors, *args, **kwargs)
            finally:
                self.inside -= 1
            if not self.inside:
                ends()
            return result

        autograd.backward = backward

    def of(self, name):
        """True, False or UNKNOWN, of this step."""
        if name in self.certain:
            return True
        return False if self.walked and name in self.known and name not in self.perhaps else UNKNOWN

    def walk(self, tensors, inputs=None):
        names = dict(self.names)
        for held, computed_with in _computed_with(self.models) if self.sharded else ():
            if id(held) in self.names:
                names[id(computed_with)] = self.names[id(held)]
                self.known.add(self.names[id(held)])
        certain, perhaps = _leaves(_roots(tensors))
        if inputs is not None:  # the backward accumulates into nothing else
            asked = {id(tensor) for tensor in ([inputs] if isinstance(inputs, self.torch.Tensor) else inputs)}
            certain, perhaps = certain & asked, perhaps & asked
        self.certain |= {names[leaf] for leaf in certain if leaf in names}
        self.perhaps |= {names[leaf] for leaf in perhaps if leaf in names}
        self.walked = True


def _roots(tensors):
    """(node, its output, the tensor) of what a backward is called with: tensors, or edges of the graph."""
    is_one = hasattr(tensors, "grad_fn") or hasattr(tensors, "node")
    for root in [tensors] if is_one else tensors:
        if hasattr(root, "node"):
            yield root.node, root.output_nr, None
        else:
            yield root.grad_fn, root.output_nr, root


def _leaves(roots):
    """ids of the tensors that the roots lead to: for certain, and through a compiled piece alone."""
    certain, perhaps, seen, compiled = set(), set(), set(), []
    nodes = []
    for node, output, tensor in roots:
        if node is None:
            certain.add(id(tensor))  # a leaf itself
        nodes.append((node, output))
    _walk(nodes, certain, seen, compiled)
    _walk([edge for node in compiled for edge in node.next_functions], perhaps, seen, None)
    return certain, perhaps - certain


def _walk(nodes, leaves, seen, compiled):
    """Past compiled pieces as well where `compiled` is None; else they are put there."""
    while nodes:
        node, output = nodes.pop()
        kind = type(node).__name__
        passes = kind == PASSES_THROUGH
        key = (node, output) if passes else node
        if node is None or key in seen:
            continue
        seen.add(key)
        if kind == "AccumulateGrad":
            leaves.add(id(node.variable))
        elif compiled is not None and kind.startswith(COMPILED):
            compiled.append(node)
        else:
            nodes.extend(node.next_functions[output : output + 1] if passes else node.next_functions)


def _computed_with(models):
    """(parameter, the whole one in its place) of what fully_shard was applied to; nothing where this torch keeps them elsewhere."""
    for group in (group for model in models for group in fully_sharded(model)):
        for param in getattr(group, "fsdp_params", ()):
            if hasattr(param, "sharded_param") and WHOLE in type(param).__annotations__:
                yield param.sharded_param, getattr(param, WHOLE, None)  # None: nothing was computed with it yet
