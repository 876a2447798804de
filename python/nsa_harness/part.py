"""A part of a training: what is wrapped together, so that ranks come to agree on its gradients together.

Most scripts have one. A GAN has two, with an optimiser each; an encoder and a decoder that are wrapped by themselves are two parts, and so
are a wrapped model and a head that stands outside of it."""

import functools

from nsa_harness.buckets import Buckets
from nsa_harness.guard import Hook
from nsa_harness.scope import Scope
from nsa_harness.values import fully_sharded, is_dtensor


def uncompiled(model):
    return model._orig_mod if type(model).__name__ == "OptimizedModule" else model


def is_ddp(model):
    return type(model).__name__ == "DistributedDataParallel"


def parts_of(model):
    """(path, module) of each DistributedDataParallel in what the script gave, and of `model` itself if it holds more than these."""
    model = uncompiled(model)
    if is_ddp(model):
        return [("", model)]
    wrapped = [(path, module) for path, module in model.named_modules() if is_ddp(module)]
    inside = {id(param) for _, module in wrapped for param in module.parameters()}
    more = any(id(param) not in inside for param in model.parameters())
    return wrapped + ([("", model)] if more or not wrapped else [])


class Part:
    """`called`: by the script, what torch.compile made, where it did. `number`: from 0. `prefix`: of its names. `others`: ids of the
    parameters of other parts, which a plain module around them holds too."""

    def __init__(self, recorder, model, called, number=0, prefix="", others=frozenset()):
        self.recorder = recorder
        self.number = number
        self.called = called
        self.model = model
        self.is_ddp = is_ddp(model)
        self.inner = uncompiled(model.module) if self.is_ddp else model
        self.prefix = prefix
        self.scope = Scope(self.inner, prefix, others)
        self.params = self.scope.params
        self.ids = {id(param) for param in self.inner.parameters()} - others  # those that cannot be looked at included
        self.sharded = any(is_dtensor(param) for _, param in self.params)
        self.buckets = Buckets(recorder, self) if self.is_ddp else None
        # Neither DistributedDataParallel nor fully_shard reduces the gradients of several ranks: the script does, before the update.
        self.by_script = recorder.several and not self.is_ddp and not self.sharded
        # DistributedDataParallel makes them equal before a forward: not behind a batch that was not reduced, and never with
        # broadcast_buffers=False.
        self.syncs_buffers = self.is_ddp and model.broadcast_buffers and hasattr(type(model), "_sync_buffers") and not hasattr(model, "buffer_hook")
        self.reduced_before = 0  # buckets, when the backward began
        self.hooks = []  # of its forward
        self.is_trained = False  # an optimiser took a step with it

    def all_params(self):
        return self.params + self.scope.frozen

    def holds(self, ids):
        return not self.ids.isdisjoint(ids)

    def trains(self, module):
        """What stands around a model may be left in evaluation (Lightning leaves DistributedDataParallel so)."""
        return (module.training or self.inner.training) and self.recorder.torch.is_grad_enabled()

    def hook_forward(self):
        """What torch.compile makes of the model later holds nothing of ours: its own call is hooked in the model's place."""
        torch, recorder = self.recorder.torch, self.recorder
        is_compiling = getattr(torch.compiler, "is_compiling", lambda: False)
        forward, forward_done = recorder.guard(recorder.forward), recorder.guard(recorder.forward_done)

        def hook(module):
            def before(called, args, kwargs):
                if called is module and not is_compiling():
                    forward(self, called, args, kwargs)

            def after(called, args, output):
                if called is module and not is_compiling():
                    forward_done(self, called, output)

            # Before fully_shard's own, which gathers the parameters: a rank that waits there is in its forward.
            hooks = [module.register_forward_pre_hook(Hook(before), with_kwargs=True, prepend=True)]
            return hooks + ([module.register_forward_hook(Hook(after))] if self.sharded else [])

        make = torch.compile

        def seen(compiled):
            def call(*args, **kwargs):
                forward(self, self.called, args, kwargs)
                output = compiled(*args, **kwargs)
                if self.sharded:
                    forward_done(self, self.called, output)
                return output

            return call

        @functools.wraps(make)
        def compile(model=None, *args, **kwargs):
            made = make(model, *args, **kwargs)
            if model is self.called:
                self.unhook()
                self.hooks.extend(hook(made))
            elif getattr(model, "__self__", None) is self.called:  # of model.compile()
                self.unhook()
                return seen(made)
            return made

        torch.compile = compile
        compiled_in_place = getattr(self.called, "_compiled_call_impl", None)  # by model.compile()
        if compiled_in_place is None:
            self.hooks.extend(hook(self.called))
        else:
            self.called._compiled_call_impl = seen(compiled_in_place)

    def unhook(self):
        for old in self.hooks:
            old.remove()
        self.hooks.clear()

    def backward_begins(self):
        self.reduced_before = self.buckets.reduced if self.buckets is not None else 0

    def has_reduced(self):
        """Whether the backward that has ended reduced gradients. One rank has nothing to reduce: each backward counts."""
        if self.buckets is not None:
            return self.buckets.reduced > self.reduced_before if self.buckets.is_registered else self.model.require_forward_param_sync
        if self.sharded:
            return any(getattr(group, "reduce_grads", True) for group in fully_sharded(self.inner))  # set_requires_gradient_sync(False)
        return not self.by_script

    def buffers(self):
        """By name: where the module holds it, which may put another tensor in its place. What DistributedDataParallel is to ignore, ranks hold
        by themselves; what is inside of another part is that part's."""
        ignored = getattr(self.model, "parameters_to_ignore", None) or ()
        inside = {id(module) for _, part in parts_of(self.inner) if part is not self.inner for module in part.modules()}
        return {
            self.prefix + name.replace("_orig_mod.", ""): (module._buffers, key)
            for path, module in self.inner.named_modules()
            if id(module) not in inside
            for key, buffer in module._buffers.items()
            if buffer is not None and (name := f"{path}.{key}" if path else key) not in ignored
        }
