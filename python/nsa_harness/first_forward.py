"""For `nsa-harness run --watch`: calls train.watch() for a script that has no line of ours, before the first forward of its training.

What is known of a script: each optimiser that it makes (hook/sitecustomize.py), each call of a module from then on, and each step of an
optimiser. A training begins with the first call of a module that holds parameters of an optimiser, where gradients are wanted. That is
what the script calls itself: DistributedDataParallel, what torch.compile made, or the plain module. Once each parameter that an optimiser
holds is in a module that is watched, modules are called as ever: what watches their calls is taken out before this very call is made. So
it is two steps after the last optimiser was made, whatever is still missing then."""

import atexit
import functools
import gc
import weakref

from nsa_harness import train
from nsa_harness.guard import Guard
from nsa_harness.optimizers import held, is_one_of, params_of, stands_around
from nsa_harness.part import is_ddp

OTHERS = ("deepspeed", "megatron")  # packages that reduce gradients and keep weights in ways of their own

PATIENCE = 2  # steps

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
        self.foreign = weakref.WeakSet()  # modules that hold no parameter of these, or nothing new
        self.searched = weakref.WeakSet()  # optimisers that were looked at in their first step
        self.recorder = None  # that was begun here
        self.begun = False  # the training has, or is refused
        self.until = None  # the step up to which calls of modules are watched
        self.unhook = None  # as long as they are
        self.without_module = None  # words of an optimiser whose parameters no module holds

    def start(self):
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        register_optimizer_step_pre_hook(self.guard(self.steps))
        atexit.register(self.guard(self.end))

    def made(self, optimizer):
        self.optimizers.append(weakref.ref(optimizer))
        self.foreign.clear()
        recorder = train.watched()
        if self.unhook is None and recorder is self.recorder and not (self.begun and recorder is None):
            self.hook_calls()
        self.until = recorder.step + PATIENCE if recorder is not None else None

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
        recorder = train.watched()
        if recorder is not self.recorder or (self.until is not None and recorder.step > self.until):
            self.unhook()  # the script has the two lines, or has had its time
        elif module not in self.foreign:
            self.foreign.add(module)
            optimizer = self.optimizer_of(module) or self.optimizer_of_copies(module)
            if optimizer is not None and self.is_new(module):
                self.begin(module, optimizer)

    def is_new(self, module):
        """Something of it is not watched yet. What makes it anew also wraps it anew."""
        if self.recorder is None:
            return True
        wraps = is_ddp(module) and all(part.model is not module for part in self.recorder.parts)
        return wraps or not _parameters(module) <= self.known()

    def optimizer_of(self, module):
        """The one that holds most parameters of the module. Of one that stands around another one the inner: its steps are always seen."""
        own = {id(param) for param in module.parameters()}
        found = {}
        for optimizer in (reference() for reference in self.optimizers):
            count = len(own & held(optimizer)) if optimizer is not None else 0
            if count:
                found[optimizer] = count
        return max(found, key=lambda one: (found[one], -stands_around(one, found)), default=None)

    def optimizer_of_copies(self, module):
        """One that holds as many numbers as the module trains, in parameters that no module has: copies of its weights, or of a model that was
        made anew."""
        count = sum(param.numel() for param in module.parameters() if param.requires_grad)
        optimizers = [one for reference in self.optimizers if (one := reference()) is not None]
        found = [one for one in optimizers if count and sum(param.numel() for param in params_of(one)) == count]
        everywhere = set().union(*map(_parameters, self.modules())) if found else set()
        return next((one for one in found if held(one).isdisjoint(everywhere)), None)

    def begin(self, called, optimizer, **more):
        self.begun = True
        if self.refused(called.modules()):
            self.unhook()
        elif self.recorder is None:
            train.begin(self.whole(called, optimizer), optimizer, called=called, **more)
            self.recorder = train.watched()
            if self.recorder is None:
                self.unhook()
            else:
                self.until = self.recorder.step + PATIENCE
        else:
            train.add(self.whole(called, optimizer), optimizer, called=called)
        if self.unhook is not None and self.recorder is not None and not self.is_missing():
            self.unhook()

    def known(self):
        """ids of the parameters of all watched parts."""
        return set().union(*(part.ids for part in self.recorder.parts))

    def is_missing(self):
        """A parameter that some optimiser holds is not watched yet."""
        return any(not held(optimizer) <= self.known() for reference in self.optimizers if (optimizer := reference()) is not None)

    def whole(self, called, optimizer):
        """`called`, or the smallest module around it that holds all that the optimiser does."""
        own = held(optimizer)
        if own <= _parameters(called) or is_ddp(called):
            return called
        around = [module for module in self.modules() if own <= _parameters(module) and any(part is called for part in module.modules())]
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
        recorder = train.watched()
        if recorder is None and not self.begun:
            return self.steps_unseen(optimizer, args, kwargs)
        if recorder is None or recorder is not self.recorder or optimizer in self.searched:
            return None
        self.searched.add(optimizer)
        if optimizer in recorder.optimizers or is_one_of(optimizer, recorder.optimizers) or any(part.holds(held(optimizer)) for part in recorder.parts):
            return None  # the recorder sees it
        model = self.trained_by(optimizer, self.modules())
        if model is None:
            train.not_judged(f"the steps of the optimiser {_words_of(optimizer)}, because no module holds its parameters")
        elif not self.refused(model.modules()):
            train.add(model, optimizer)
        return None

    def trained_by(self, optimizer, modules):
        """The smallest module that holds all that the optimiser does, or the wrapper around it."""
        own = held(optimizer)
        around = [module for module in modules if own <= _parameters(module)]
        return _smallest([module for module in around if is_ddp(module)]) or _smallest(around)

    def steps_unseen(self, optimizer, args, kwargs):
        """No forward was seen before this step."""
        done = train.after_closure(args, kwargs, functools.partial(self.guard(self.closure_done), optimizer))
        if done is not None or optimizer in self.searched:  # with a closure the forward comes inside of the step
            return done
        self.searched.add(optimizer)
        modules = self.modules()
        model = self.trained_by(optimizer, modules)
        if self.refused(modules):
            self.unhook()
            self.begun = True
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
        if not self.begun and self.without_module is not None and not train.is_watching():
            train.refuse(f"the training, because no module holds the parameters of the optimiser {self.without_module}")

    def closure_done(self, optimizer):
        if train.is_watching() and self.begun:
            train.update_begins(optimizer)


def _parameters(module):
    return {id(param) for param in module.parameters()}


def _package(module):
    return type(module).__module__.split(".", 1)[0]


def _smallest(modules):
    return min(modules, key=lambda module: sum(1 for _ in module.modules()), default=None)


def _words_of(optimizer):
    count = len(params_of(optimizer))
    return f"{type(optimizer).__name__} with {count} parameter{'' if count == 1 else 's'}"
