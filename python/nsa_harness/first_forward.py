"""For `nsa-harness run --watch`: calls train.watch() for a script that has no line of ours, before the first forward of its training.

What is known of a script: each optimiser that it makes (hook/sitecustomize.py), each call of a module from then on, and each step of an
optimiser. A training begins with the first call of a module that holds parameters of an optimiser, where gradients are wanted. That is
what the script calls itself: DistributedDataParallel, what torch.compile made, or the plain module. From then on modules are called as
ever: what watches their calls is taken out before this very call is made."""

import atexit
import functools
import gc
import weakref

from nsa_harness import train
from nsa_harness.guard import Guard

OTHERS = ("deepspeed", "megatron")  # packages that reduce gradients and keep weights in ways of their own

_first = None  # of this process


def made(optimizer):
    """The script has made an optimiser."""
    global _first
    if _first is None:
        import torch

        _first = FirstForward(torch)
        _first.guard(_first.start)()
    _first.guard(_first.made)(optimizer)


class FirstForward:
    def __init__(self, torch):
        self.torch = torch
        self.guard = Guard(lambda name, error: train.refuse(f"the training, because of an error of nsa_harness itself: {error}"))
        self.optimizers = []  # weak references
        self.foreign = weakref.WeakSet()  # modules that hold no parameter of these
        self.searched = weakref.WeakSet()  # optimisers that were looked at in their first step
        self.watched = None  # weak reference to the optimiser that is looked at
        self.unhook = None  # as long as calls of modules are watched
        self.without_module = None  # words of an optimiser whose parameters no module holds

    def start(self):
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        register_optimizer_step_pre_hook(self.guard(self.steps))
        atexit.register(self.guard(self.end))
        self.hook_calls()

    def made(self, optimizer):
        self.optimizers.append(weakref.ref(optimizer))
        self.foreign.clear()

    def hook_calls(self):
        kind = self.torch.nn.Module
        call, make, looks = kind.__call__, self.torch.compile, self.guard(self.looks)
        is_compiling = getattr(self.torch.compiler, "is_compiling", lambda: False)
        enabled = self.torch.is_grad_enabled

        @functools.wraps(call)
        def call_seen(module, *args, **kwargs):
            if self.unhook is not None and not is_compiling() and enabled():
                looks(module)
            return call(module, *args, **kwargs)

        # What torch.compile makes of a module holds the way it is called.
        @functools.wraps(make)
        def compile_seen(*args, **kwargs):
            put(kind, "__call__", call_seen, call)
            try:
                return make(*args, **kwargs)
            finally:
                if self.unhook is not None:
                    put(kind, "__call__", call, call_seen)

        def put(holder, name, old, new):
            if getattr(holder, name) is old:  # else somebody stands around it, who puts it back later: it does nothing then
                setattr(holder, name, new)

        def unhook():
            self.unhook = None
            put(kind, "__call__", call_seen, call)
            put(self.torch, "compile", compile_seen, make)

        self.unhook = unhook
        kind.__call__ = call_seen
        self.torch.compile = compile_seen

    # ---- the training begins -----------------------------------------------------------------------------------------

    def looks(self, module):
        """The script calls `module`, or the module that it calls calls this one."""
        if train.is_watching():  # the script has the two lines
            self.unhook()
        elif module not in self.foreign:
            optimizer = self.optimizer_of(module)
            if optimizer is None:
                self.foreign.add(module)
            else:
                self.begin(module, optimizer)

    def optimizer_of(self, module):
        """The one that holds most parameters of the module. Of one that stands around another one the inner: its steps are always seen."""
        own = {id(param) for param in module.parameters()}
        held = {}
        for optimizer in (reference() for reference in self.optimizers):
            count = len(own & _held(optimizer)) if optimizer is not None else 0
            if count:
                held[optimizer] = count
        return max(held, key=lambda one: (held[one], -_inside(one, held)), default=None)

    def begin(self, called, optimizer, **more):
        self.unhook()
        self.watched = weakref.ref(optimizer)
        if not self.refused(called.modules()):
            train.begin(self.whole(called, optimizer), optimizer, called=called, **more)

    def whole(self, called, optimizer):
        """`called`, or the smallest module around it that holds all that the optimiser does."""
        held = _held(optimizer)
        if held <= _parameters(called) or type(called).__name__ == "DistributedDataParallel":
            return called
        around = [module for module in self.modules() if held <= _parameters(module) and any(part is called for part in module.modules())]
        return _smallest(around) or called

    def refused(self, modules):
        """One of these is of a package that does all by itself."""
        name = next((f"{type(module).__name__} of {package}" for module in modules if (package := _package(module)) in OTHERS), None)
        if name is not None:
            train.refuse(f"the training, because {name} reduces gradients and keeps weights in a way that is not known here")
        return name is not None

    def modules(self):
        """All modules of this process: a search of a tenth of a second. type(): asking a stand-in for its class may load what it stands for."""
        return [one for one in gc.get_objects() if issubclass(type(one), self.torch.nn.Module)]

    # ---- the steps of optimisers -------------------------------------------------------------------------------------

    def steps(self, optimizer, args, kwargs):
        """Before each step of any optimiser."""
        watched = self.watched and self.watched()
        if watched is None and not train.is_watching():
            return self.steps_unseen(optimizer, args, kwargs)
        if watched is None or optimizer is watched or optimizer in self.searched:
            return None
        self.searched.add(optimizer)
        if _inside(optimizer, [watched]) or _inside(watched, [optimizer]):
            return None  # of the two, one calls the other
        if _held(optimizer) & _held(watched):  # the script goes on with another one
            self.watched = weakref.ref(optimizer)
            train.take_optimizer(optimizer)
        else:
            train.not_judged(f"the steps of the optimiser {_words_of(optimizer)}, because one optimiser is looked at, the first one")
        return None

    def steps_unseen(self, optimizer, args, kwargs):
        """No forward was seen before this step."""
        done = train.after_closure(args, kwargs, self.guard(self.closure_done))
        if done is not None or optimizer in self.searched:  # with a closure the forward comes inside of the step
            return done
        self.searched.add(optimizer)
        modules = self.modules()
        model = _smallest([module for module in modules if _held(optimizer) <= _parameters(module)]) or _made_anew(optimizer, modules)
        if self.refused(modules):
            self.unhook()
            self.watched = weakref.ref(optimizer)
        elif model is not None:
            handles = []

            def stepped(*_):
                handles.pop().remove()
                if not train.is_watching():
                    self.begin(model, optimizer, first=2)
                    train.not_judged("step 1, because no call of the module that it trains was seen before its optimiser's step")

            handles.append(optimizer.register_step_post_hook(self.guard(stepped)))
        else:  # it may fit a few numbers before the training begins
            self.without_module = _words_of(optimizer)
        return None

    def end(self):
        if self.watched is None and self.without_module is not None and not train.is_watching():
            train.refuse(f"the training, because no module holds the parameters of the optimiser {self.without_module}")

    def closure_done(self):
        if train.is_watching() and self.watched is not None:
            train.update_begins()


def _held(optimizer):
    """ids of its parameters."""
    return {id(param) for group in getattr(optimizer, "param_groups", ()) for param in group["params"]}


def _parameters(module):
    return {id(param) for param in module.parameters()}


def _made_anew(optimizer, modules):
    """The module that has gradients in the place of the optimiser's parameters, which have none: it was made, or sharded, after them."""
    held = [param for group in getattr(optimizer, "param_groups", ()) for param in group["params"]]
    if not held or any(param.grad is not None for param in held):
        return None
    shapes = sorted(tuple(param.shape) for param in held)

    def takes_their_place(module):
        own = [param for param in module.parameters() if param.requires_grad]
        return len(own) == len(held) and all(param.grad is not None for param in own) and sorted(tuple(param.shape) for param in own) == shapes

    return _smallest([module for module in modules if takes_their_place(module)])


def _inside(optimizer, others):
    """How many of the others it stands around."""
    values = {id(value) for value in vars(optimizer).values()}
    return sum(id(other) in values for other in others)


def _package(module):
    return type(module).__module__.split(".", 1)[0]


def _smallest(modules):
    return min(modules, key=lambda module: sum(1 for _ in module.modules()), default=None)


def _words_of(optimizer):
    count = len(_held(optimizer))
    return f"{type(optimizer).__name__} with {count} parameter{'' if count == 1 else 's'}"
