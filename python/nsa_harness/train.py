"""Two lines in a training script of your own, below the optimiser: `import nsa_harness` and
`nsa_harness.train.watch(model, optimizer)`. docs/your-run.md says what is recorded then.

If the script was not started by `nsa-harness run -- COMMAND`, watch() does nothing. It never raises and never refuses: what it cannot
judge it reports by name, and an error of its own ends its record and not the training."""

import atexit
import functools
import json
import math
import os
import sys
import time
import weakref

from nsa_harness import flight, stacks
from nsa_harness.autograd_graph import Reach
from nsa_harness.channel import bases_of, name_of_type, original_of, place_of
from nsa_harness.collectives import COLLECTIVES, wrapped
from nsa_harness.fingerprints import Fingerprints
from nsa_harness.guard import Guard, words_of
from nsa_harness.losses import Losses
from nsa_harness.optimizers import Strangers, held, is_one_of
from nsa_harness.part import Part, is_ddp, parts_of, uncompiled
from nsa_harness.socket_channel import ADDRESS, LET_GO_S, SocketChannel
from nsa_harness.values import hash_of, holds_nan, is_dtensor, local, real, tensors_in

FIRST_STEPS = 10
FEW_HOOKS = 4  # in a step that is not recorded: a backward of many seconds still moves
ORIGIN = "NSA_HARNESS_ORIGIN_MS"  # when the case began, on the monotonic clock
SAT_OUT = "sat_out"  # a fact: the number of a step
NEVER_REACHED = "never_reached"  # a fact: names of parameters, as JSON
MOST_NAMES = 64
NOT_JUDGED = "not_judged"  # a fact: "WHAT, because WHY"

_watching = []  # the Recorder of this process


def watch(model, optimizer, every=None):
    """Records what `model` and `optimizer` do for the harness. In each step: progress, collectives, the loss, and fingerprints of all
    parameters, buffers, reduced gradients and batches. In the first ten steps and in each `every`th one: each of these by itself. Without
    `every`: in steps 100, 200, ... 1000, 2000, ... 10000, 20000, ..., so that the record of a long run is small.

    `model` is a module, a DistributedDataParallel around one, a module that holds some of these, one that fully_shard was applied to, or
    what torch.compile made of it. A script with several models or optimisers calls watch for each pair. What of another model cannot be
    judged (FullyShardedDataParallel, tensor parallelism) is listed in the report, with the reason. Never raises."""
    if not is_watching():
        begin(model, optimizer, every)
        return
    if every is not None or optimizer in _watching[-1].optimizers:
        _watching[-1].record_every(every)  # `run --watch` may have begun before this line
    add(model, optimizer)


def is_watching():
    """In this process, not in the one that forked it."""
    return bool(_watching) and _watching[-1].guard.is_on


def not_judged(sentence):
    _watching[-1].not_judged(sentence)


def refuse(sentence):
    """Nothing is looked at, for this reason."""
    if is_watching():
        not_judged(sentence)
    elif opened := _open(None):
        opened[0].write("fact", name=NOT_JUDGED, value=sentence)


def begin(model, optimizer, every=None, called=None, first=1):
    """watch() in a process that is not watched yet. `called`: by the script, where it is a part of the model; `first`: number of the
    script's next step."""
    opened = _open(model)
    if opened is None:
        return
    channel, rank, torch = opened
    try:
        if not isinstance(model, torch.nn.Module):
            channel.write("fact", name=NOT_JUDGED, value=_no_module("the training", model))
            return
        recorder = Recorder(model, optimizer, channel, rank, every, torch, called, first)
        _watching.append(recorder)
        recorder.start()
    except Exception as error:  # noqa: BLE001: the training goes on
        channel.write("fact", name=NOT_JUDGED, value=_failed("watch", error))


def add(model, optimizer, called=None):
    """Another model, or another optimiser, in a process that is watched."""
    recorder = _watching[-1]
    if isinstance(model, recorder.torch.nn.Module):
        recorder.guard(recorder.add)(model, called)
        recorder.guard(recorder.hook_optimizer)(optimizer)
    else:
        not_judged(_no_module("another model", model))


def watched():
    """The Recorder of this process, None where it has none."""
    return _watching[-1] if is_watching() else None


def _open(model):
    """(channel, rank, torch), and hello is said; None where there is no controller."""
    address = os.environ.get(ADDRESS)
    if not address:
        return None
    try:
        import torch

        stacks.arm(address)
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        rank = torch.distributed.get_rank() if distributed else int(os.environ.get("RANK") or "0")
        channel = SocketChannel(address, int(os.environ[ORIGIN]), rank)
        channel.write(
            "hello",
            pid=os.getpid(),
            torch_version=torch.__version__,
            device=next((param.device.type for param in model.parameters()), "cpu") if isinstance(model, torch.nn.Module) else "",
            backend=torch.distributed.get_backend() if distributed else "",
            threads=torch.get_num_threads(),
        )
    except Exception as error:  # noqa: BLE001: the training goes on
        print(f"nsa_harness: watch records nothing: {words_of(error)}", file=sys.stderr)
        return None
    return channel, rank, torch


def after_closure(args, kwargs, function):
    """What an optimiser's step is to be called with so that `function` is called once its closure, which computes the gradients, has come
    back for the first time. None where the step has no closure. args[0] is the optimiser."""
    closure = args[1] if len(args) > 1 else kwargs.get("closure")
    if not callable(closure):
        return None
    called = []

    @functools.wraps(closure)
    def closure_seen(*given, **more):
        loss = closure(*given, **more)
        if not called:
            called.append(True)
            function()
        return loss

    if len(args) > 1:
        return (args[0], closure_seen, *args[2:]), kwargs
    return args, {**kwargs, "closure": closure_seen}


def update_begins(optimizer):
    """The gradients of the step that the optimiser is in are there."""
    _watching[-1].gradients_are_there(optimizer)


def _no_module(what, found):
    return f"{what}, because watch was given a {type(found).__name__} in place of a module"


def _failed(name, error):
    return f"what the two lines record in {name}, because of an error of nsa_harness itself: {words_of(error)}"


class Recorder:
    """Counts *steps*: a step ends with an optimiser's, or when gradients are dropped that no optimiser step has used. So ranks that share
    each reduction count alike, also where one of them leaves a step of its optimiser out. If a second optimiser takes its step before
    anything else is computed, it is of the same step."""

    def __init__(self, model, optimizer, channel, rank, every, torch, called=None, first=1):
        self.torch = torch
        self.guard = Guard(lambda name, error: self.not_judged(_failed(name, error)))
        self.channel = channel
        self.rank = rank
        self.record_every(every)
        self.said = set()  # what cannot be judged
        self.several = self.distributed and torch.distributed.get_world_size() > 1
        self.parts = []
        self.index_of = {}  # by name: the same as long as the process lives
        self.optimizers = weakref.WeakSet()
        self.updating = None  # the optimiser that is at work
        self.goes_on = False  # it takes its step in the one that has ended
        self.gradients_are_there = self.guard(self.update_begins)
        self.updated_by = set()  # ids of the optimisers that made the last step
        self.strangers = Strangers(self)
        self.reach = Reach(torch)
        self.losses = Losses(torch)
        self.loss_row = channel.head("sample", '"metric": "loss", "step": ')
        self.step = first
        self.recorded = self.is_recorded()
        self.last_recorded = False
        self.micro = -1
        self.sequences = {}  # of each group
        self.seen = {}  # name -> local gradient of this step: (order, times, l2, absmax, hash, state)
        self.buckets = {}
        self.reduced = {}  # name -> hash of what came out of the reduction
        self.hooks = {}  # name -> hook of its gradient
        self.hooks_before = 0  # that were called before this step
        self.on_its_way = []  # (events of cards, what is called once they are there)
        self.relaxed = False
        self.is_started = False
        self.end_with_callbacks()
        self.fingerprints = Fingerprints(self)
        self.first_optimizer = optimizer
        self.add(model, called)

    def start(self):
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        torch, guard = self.torch, self.guard
        self.enter("data")
        guard(self.tell_errors)()
        self.is_started = True
        self.fingerprints.start()
        for part in self.parts:
            self.begin_part(part)
        guard(self.hook_gradients)()
        guard(self.hook_optimizer)(self.first_optimizer)
        del self.first_optimizer
        register_optimizer_step_pre_hook(guard(self.steps))
        self.reach.watch_backward(self.looks, guard(self.backward_begins), guard(self.reach.walk), self.fingerprints.backward_ends)
        atexit.register(guard(self.forget))  # before wait_for_callbacks
        if self.distributed:
            self.wrap_collectives()
        self.channel.on_beat = guard(self.beat)
        atexit.register(self.end)
        if self.distributed and "nccl" not in str(torch.distributed.get_backend()):
            self.channel.flight = lambda: flight.dump(torch)  # of NCCL's the controller asks PyTorch itself

    def forget(self):
        for part in self.parts:
            if part.buckets is not None:
                part.buckets.forget()

    # ---- what is trained ---------------------------------------------------------------------------------------------

    def add(self, model, called=None):
        """What is not watched yet of `model`. A wrapper around what is watched takes the place of the one before."""
        found = parts_of(model)
        for path, module in found:
            own = {id(param) for param in module.parameters()}
            before = [part for part in self.parts if is_ddp(module) and part.model is not module and part.holds(own)]
            known = set().union(*(part.ids for part in self.parts if part not in before))
            if own and own <= known:
                continue
            for part in before:
                part.unhook()
                self.fingerprints.drop(part)
                self.parts.remove(part)
            if len(before) == 1:
                number, prefix = before[0].number, before[0].prefix
            else:
                number = self.parts[-1].number + 1 if self.parts else 0
                prefix = (f"model{number + 1}." if self.is_started else "") + (f"{path}." if path else "")
            given = called if called is not None and uncompiled(called) is module else model if uncompiled(model) is module else module
            part = Part(self, module, given, number, prefix, known)
            part.is_called = is_ddp(module) or len(found) == 1
            self.parts.append(part)
            if self.is_started:
                self.begin_part(part)
        self.params = [pair for part in self.parts for pair in part.params]
        self.names = {id(param): name for name, param in self.params}
        self.indices = {id(param): self.index_of.setdefault(name, len(self.index_of)) for name, param in self.params}
        self.sharded = any(part.sharded for part in self.parts)
        self.apart = -(-len(self.params) // FEW_HOOKS) or 1
        if self.is_started:
            self.hook_gradients()

    def begin_part(self, part):
        for sentence in part.scope.not_judged:
            self.not_judged(sentence)
        self.reach.add(part.inner, part.params)
        if part.is_called:
            self.guard(part.hook_forward)()
        self.fingerprints.add(part)

    def not_judged(self, sentence):
        """Once each."""
        if self.guard.is_on and sentence not in self.said:
            self.said.add(sentence)
            self.channel.write("fact", name=NOT_JUDGED, value=sentence)

    def record_every(self, steps):
        """None: as watch() says."""
        self.every = None if steps is None else max(1, steps)

    def is_recorded(self):
        """Whether this step's tensors are: every collective is, but not every tensor of a long run."""
        every = self.every or 10 ** max(2, len(str(self.step)) - 1)
        return self.step <= FIRST_STEPS or self.step % every == 0

    def looks(self):
        """Whether tensors may be read now. While a CUDA graph is captured nothing may wait for the card."""
        return self.recorded and not self.is_capturing()

    def is_capturing(self):
        cuda = self.torch.cuda
        if not cuda.is_initialized() or not cuda.is_current_stream_capturing():
            return False
        self.not_judged("the steps that a CUDA graph repeats, because it calls no hook")
        return True

    @property
    def distributed(self):
        return self.torch.distributed.is_available() and self.torch.distributed.is_initialized()

    def enter(self, phase):
        self.channel.enter(phase, self.step)

    # ---- forward -----------------------------------------------------------------------------------------------------

    def forward(self, part, module, args, kwargs):
        for one in self.parts:
            if one.buckets is not None:
                one.buckets.register()
        if part.trains(module):  # else an evaluation, of any data
            if self.micro >= 0 and self.dropped():
                self.end_step()
            self.micro += 1
            self.fingerprints.close()  # its row goes out now: this forward may wait for the other ranks
            self.channel.enter("forward", self.step)
            self.fingerprints.forward(part, args, kwargs)
            if part.scope.tells_batches and self.looks():
                tensors = tensors_in([*args, *kwargs.values()], self.torch)  # also of a list or a dictionary
                if tensors and all(map(self.is_plain, tensors)):  # what is left of a batch may be the same on two ranks
                    self.channel.write("batch", step=self.step, micro=self.micro, of_rank=self.rank, sequence=0, hash=hash_of(tensors), source="")
        self.channel.moved()

    def is_plain(self, tensor):
        """Its bytes can be read, and tell one batch from another one."""
        return tensor.layout is self.torch.strided and not tensor.is_nested and not tensor.is_meta and not holds_nan(tensor)

    # A sharded module reduces its gradients before any of them is there.
    def forward_done(self, part, module, output):
        self.channel.moved()
        if part.trains(module):
            enter = self.guard(self.enter_backward)
            for tensor in tensors_in(output, self.torch):
                if tensor.requires_grad:
                    tensor.register_hook(enter)

    def enter_backward(self, _):
        if self.channel.phase != "backward":
            self.channel.enter("backward", self.step)

    # ---- backward ----------------------------------------------------------------------------------------------------

    def hook_gradients(self):
        """Of each parameter where the step is recorded. A call into Python costs as much as an operator, so in other steps a few
        parameters are put into a list, which needs none."""
        self.hooks_all = self.recorded
        for hook in self.hooks.values():
            hook.remove()
        self.hooks.clear()
        gradient = self.torch.compiler.disable(self.guard(self.gradient)) if self.hooks_all else self.channel.hooked.append
        for name, param in self.params if self.hooks_all else self.params[:: self.apart]:
            if param.requires_grad:  # torch refuses a hook of one that is frozen now
                self.hooks[name] = param.register_post_accumulate_grad_hook(gradient)

    def backward_begins(self, roots):
        self.enter_backward(roots)
        for part in self.parts:
            part.backward_begins()
        if self.recorded and not self.seen:
            self.hook_gradients()  # the script may have unfrozen something since the step began
        if not self.is_capturing():
            self.losses.begin(roots)

    def gradient(self, param):
        self.enter_backward(param)
        self.channel.moved("hooks")
        if not self.looks():
            return
        name = self.names[id(param)]
        order, times = self.seen[name][:2] if name in self.seen else (len(self.seen), 0)
        self.seen[name] = (order, times + 1, *self.measured(param.grad))
        if is_dtensor(param):
            self.reduced[name] = self.seen[name][4]  # the hooks of a sharded parameter are called after its reduction

    def measured(self, grad):
        """l2, absmax, hash, state."""
        if grad is None:
            return 0.0, 0.0, "", "none"
        grad = local(grad)
        values = grad.detach().to_dense() if grad.is_sparse else grad.detach()
        l2, absmax = float(values.double().norm()), float(values.abs().max()) if values.numel() else 0.0
        if absmax != absmax:
            state = "nan"
        elif absmax == float("inf"):
            state = "inf"
        else:
            state = "zero" if absmax == 0.0 else "ok"
        return l2, absmax, hash_of([values]), state

    def then(self, future, function):
        """future.then(function)."""
        self.keep(function)
        return future.then(function)

    def keep(self, called):
        """At its end the process waits for torch to let go of it: a thread of torch that does so later aborts the process."""
        self.callbacks = [held for held in self.callbacks if held() is not None] + [weakref.ref(called)]

    # ---- what the card has not done yet ------------------------------------------------------------------------------

    def on_card(self, tensors):
        return any(tensor.is_cuda for tensor in tensors) and not self.is_capturing()

    def settle(self, done, on_card, streams=(None,)):
        """`done` once what the streams wait for is there, None being the current one: NCCL's functions return as soon as they have told
        the card."""
        if not on_card:
            return done()
        events = [self.torch.cuda.Event() for _ in streams]
        for event, stream in zip(events, streams):
            event.record(stream)
        self.on_its_way.append((events, done))
        return self.settle_all()

    def wait_for(self, cards, function):
        """`function` once the cards have done what their current streams hold now."""
        if self.fingerprints.guard.is_on:
            self.fingerprints.wait_for(cards, function)
        else:
            self.settle(function, True, [self.torch.cuda.current_stream(card) for card in cards])

    def settle_all(self):
        """Also from the thread that sends heartbeats, while the script waits for the card. What two threads find is called once."""
        for pair in list(self.on_its_way):
            if all(event.query() for event in pair[0]):
                try:
                    self.on_its_way.remove(pair)
                except ValueError:
                    continue  # the other thread has it
                pair[1]()

    def beat(self):
        """In the thread that sends heartbeats. It may ask for an event while another thread captures a graph."""
        if self.on_its_way and not self.relaxed:
            self.relaxed = True
            _let_captures_go_on()
        self.settle_all()

    def end_with_callbacks(self):
        self.callbacks = []  # weak references to functions that torch holds
        atexit.register(self.wait_for_callbacks)

    def wait_for_callbacks(self):
        end = time.monotonic() + LET_GO_S
        while self.guard.is_on and any(held() is not None for held in self.callbacks) and time.monotonic() < end:
            time.sleep(0.001)

    def end(self):
        """What the card does in its last step is reported if it is there soon."""
        self.fingerprints.close(is_end=True)
        self.guard(self.strangers.tell)()
        end = time.monotonic() + LET_GO_S
        settle_all = self.guard(self.settle_all)
        while self.guard.is_on and self.on_its_way and time.monotonic() < end:
            settle_all()
            time.sleep(0.001)
        if self.guard.is_on and (names := self.guard(self.fingerprints.never_reached, [])()):
            self.channel.write("fact", name=NEVER_REACHED, value=json.dumps(names[:MOST_NAMES]))
        self.channel.send("")
        self.channel.end_calls()

    # ---- optimiser ---------------------------------------------------------------------------------------------------

    def hook_optimizer(self, optimizer):
        if optimizer in self.optimizers:
            return
        self.optimizers.add(optimizer)
        self.strangers.fresh[optimizer] = 0
        before, after = self.guard(self.before_update), self.guard(self.after_update)
        if hasattr(optimizer, "register_step_pre_hook"):
            optimizer.register_step_pre_hook(before)
            optimizer.register_step_post_hook(after)
        else:  # one that is none of torch's
            step = optimizer.step

            def step_seen(*args, **kwargs):
                before(optimizer)
                result = step(*args, **kwargs)
                after(optimizer)
                return result

            optimizer.step = step_seen
        forget, end_if_dropped = getattr(optimizer, "zero_grad", None), self.guard(self.end_if_dropped)
        if forget is not None:

            def zero_grad(*args, **kwargs):
                end_if_dropped()
                return forget(*args, **kwargs)

            optimizer.zero_grad = zero_grad

    def steps(self, optimizer, args, kwargs):
        """Before each step of any optimiser of torch: of one that was not seen yet, and that holds parameters that are watched."""
        if optimizer not in self.optimizers and not is_one_of(optimizer, self.optimizers) and any(part.holds(held(optimizer)) for part in self.parts):
            self.hook_optimizer(optimizer)  # its hooks are called in this step already

    def came(self):
        """How many gradients of this step have come."""
        return self.channel.hooks() - self.hooks_before

    def dropped(self):
        """The script has dropped the gradients of this step by itself, and no optimiser has used them."""
        return self.updating is None and self.came() > 0 and all(param.grad is None for _, param in self.params)

    def end_if_dropped(self):
        """The script drops all gradients. Inside of an optimiser's step this is a part of the step."""
        if self.channel.phase != "data" and self.updating is None and self.came() > 0:
            self.end_step()

    def is_idle(self):
        """Nothing of this step has begun."""
        return self.micro < 0 and self.channel.phase == "data" and not self.fingerprints.backwards and self.came() == 0

    def before_update(self, optimizer, args=(), kwargs=None):
        """Gives what the step is to be called with in place of its arguments, or None."""
        if self.updating is not None and is_one_of(optimizer, [self.updating]):
            return None  # of the two, one calls the other
        self.updating = optimizer
        done = after_closure(args, kwargs or {}, functools.partial(self.gradients_are_there, optimizer))
        if done is None:
            self.update_begins(optimizer)
        return done

    def update_begins(self, optimizer):
        if self.reach.inside:
            self.not_judged("the training, because an optimiser takes its steps inside of the backward")
            self.guard.is_on = False
            return
        self.updating = optimizer
        self.goes_on = self.is_idle() and bool(self.updated_by) and id(optimizer) not in self.updated_by
        if self.goes_on:
            return
        if self.looks():
            self.enter("record")
            self.tell_gradients(optimizer)
        self.fingerprints.update_begins()
        self.channel.enter("optimizer", self.step)

    def tell_gradients(self, optimizer):
        """Of the parts that were reduced, and of those that the optimiser trains. Of all, if it holds parameters of none, such as copies of
        the weights. A loss that leads through the other model of a GAN leaves gradients there that are no mean and that nothing uses."""
        own = held(optimizer)
        parts = [part for part in self.parts if part in self.fingerprints.reduced or part.holds(own)] or self.parts
        self.channel.write_all("gradient", self.rows_of_gradients(parts))
        params = [param for part in parts for _, param in part.params]
        if self.sharded or not params:
            return  # no rank holds what a norm is of
        norm = sum(self.measured(param.grad)[0] ** 2 for param in params) ** 0.5
        self.channel.write("sample", metric="grad_norm", step=self.step, value=real(norm))

    def counts_ready(self, part):
        """Whether a gradient may become ready once only. With a static graph, and outside of DistributedDataParallel, a layer that is
        checkpointed and called twice adds to its gradients twice by right; so do several micro-batches."""
        return self.micro <= 0 and part.is_ddp and not getattr(part.model, "static_graph", False)

    def rows_of_gradients(self, parts):
        own = {one for optimizer in self.optimizers for one in held(optimizer)}
        for part in self.parts:
            counts_ready, is_trained = self.counts_ready(part), part in parts
            for name, param in part.params:
                grad = param.grad if is_trained else None
                after = self.measured(grad)
                # What is there though no hook was called: of an earlier step, of another rank, or put there by the script.
                there = (-1, 0, *after[:2], "", after[3])
                if self.sharded and not self.seen and grad is not None:
                    there = (self.indices[id(param)], 1, *after)  # a torch whose fully_shard calls no hooks
                order, times, l2, absmax, before, state = self.seen.get(name, there) if is_trained else there
                reachable = is_trained and (True if times else self.reach.of(name))
                needed = is_trained and param.requires_grad and (id(param) in own or reachable is True)
                yield dict(
                    step=self.step,
                    of_rank=self.rank,
                    param=name,
                    index=self.indices[id(param)],
                    reachable=reachable,
                    ready_count=times if counts_ready else min(times, 1),
                    ready_order=order,
                    bucket=self.buckets.get(name, -1),
                    state=state if needed else "frozen",
                    l2=real(l2),
                    absmax=real(absmax),
                    hash_before=before,
                    hash_after=self.reduced.get(name, after[2]) if is_trained else "",
                    reduced=grad is not None,
                    **part.scope.piece(param, self.rank),
                )

    def after_update(self, optimizer=None, *_):
        if optimizer is not self.updating:
            return
        self.updating = None
        if self.strangers.fresh:
            self.strangers.look(optimizer)
        if self.looks() if not self.goes_on else self.last_recorded:
            self.tell_parameters(self.step - self.goes_on)
        self.fingerprints.update_ends(optimizer, self.goes_on)
        if not self.goes_on:
            self.end_step()
        self.updated_by.add(id(optimizer))

    def tell_parameters(self, step):
        rows = (
            dict(step=step, param=name, hash=hash_of([param.detach()]), **part.scope.piece(param, self.rank))
            for part in self.parts
            for name, param in part.params
        )
        self.channel.write_all("parameter", rows)

    def sit_out(self):
        """Once for each step of the others that this rank, which has joined them (DistributedDataParallel.join), has no batch for."""
        self.channel.write("fact", name=SAT_OUT, value=str(self.step))
        self.fingerprints.sits_out()
        self.end_step()

    def end_step(self):
        if self.losses.parts:
            self.losses.take(self.wait_for, functools.partial(self.tell_loss, self.step))
        self.fingerprints.end_step()
        self.updated_by.clear()
        self.last_recorded = self.recorded
        self.step += 1
        self.micro = -1
        self.hooks_before = self.channel.hooks()
        self.recorded = self.is_recorded()
        if self.recorded or self.hooks_all:
            self.seen, self.buckets, self.reduced = {}, {}, {}
            self.reach.begin()
        if self.recorded != self.hooks_all:
            self.hook_gradients()
        self.channel.enter("data", self.step, after_work=True)

    def tell_loss(self, step, loss):
        value = loss if -math.inf < loss < math.inf else json.dumps(real(loss))
        self.channel.put(f'{self.loss_row}{step}, "value": {value}}}, "t_ms": {self.channel.now_ms()}}}\n')

    # ---- collectives and errors --------------------------------------------------------------------------------------

    def entered(self, op, reduce_op, dtype, count, group):
        """Records a collective before it is enqueued; gives what is to be called once it is done."""
        world = group is None or group is self.torch.distributed.group.WORLD
        name = "default" if world else getattr(group, "group_name", "default")
        sequence = self.sequences.get(name, 0)
        self.sequences[name] = sequence + 1
        self.channel.write(
            "collective",
            sequence=sequence,
            step=self.step,
            phase=self.channel.phase,
            op=op,
            reduce_op=reduce_op,
            dtype=dtype,
            count=count,
            group=name,
            micro=max(0, self.micro),
        )
        self.channel.moved("collectives_enqueued")

        def done():
            self.channel.write("collective_done", sequence=sequence, group=name)
            self.channel.moved("collectives_completed")

        return done

    def wrap_collectives(self):
        """The functions of torch.distributed that a script calls; c10d's own calls do not come through them."""
        distributed = self.torch.distributed
        for function, (op, sent, reduces) in COLLECTIVES.items():
            if hasattr(distributed, function):
                setattr(distributed, function, wrapped(self, getattr(distributed, function), op, sent, reduces))

    def tell_errors(self):
        """The exception that ends the script, before torch's own hook prints it."""
        before, tell_error = sys.excepthook, self.guard(self.tell_error)

        def told(kind, error, trace):
            try:
                tell_error(error)
            finally:
                before(kind, error, trace)

        told.of_nsa_harness = tell_error  # for what catches an exception before it comes here: hook/sitecustomize.py
        sys.excepthook = told

    def tell_error(self, error):
        self.channel.write(
            "error",
            type=name_of_type(error),
            what=str(error)[:4000],
            phase=self.channel.phase,
            step=self.step,
            bases=bases_of(error, self.torch),
            frames=place_of(error),
            raised_from=original_of(error),
        )


def _let_captures_go_on():
    """By the rule of captures a question about an event, asked by any thread, ends a capture; not if the asking thread is relaxed."""
    import ctypes

    RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
    ctypes.CDLL("libcuda.so.1").cuThreadExchangeStreamCaptureMode(ctypes.byref(ctypes.c_int(RELAXED)))
