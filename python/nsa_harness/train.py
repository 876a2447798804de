"""Two lines in a training script of your own, below the optimiser: `import nsa_harness` and
`nsa_harness.train.watch(model, optimizer)`. docs/your-run.md tells what is recorded then.

Where the script was not started by `nsa-harness run -- COMMAND`, watch() does nothing."""

import atexit
import os
import sys
import time
import weakref

from nsa_harness import flight
from nsa_harness.buckets import Buckets
from nsa_harness.channel import bases_of, name_of_type, place_of
from nsa_harness.collectives import COLLECTIVES, wrapped
from nsa_harness.autograd_graph import Reach
from nsa_harness.socket_channel import LET_GO_S, SocketChannel
from nsa_harness.values import dtype_name, hash_of, is_dtensor, local, piece, real, tensors_in

ADDRESS = "NSA_HARNESS_SOCKET"  # name of an abstract Unix socket
FIRST_STEPS = 10
FEW_HOOKS = 4  # in a step that is not recorded: a backward of many seconds still moves
ORIGIN = "NSA_HARNESS_ORIGIN_MS"  # when the case began, on the monotonic clock


class Refused(ValueError):
    """What watch() cannot judge, by name."""


def watch(model, optimizer, every=100):
    """Records what `model` and `optimizer` do for the harness: progress and collectives of each step; batches, gradients and
    parameters of the first ten steps and of each `every`th one.

    `model` is a module, a DistributedDataParallel around one, one that fully_shard was applied to, or what torch.compile made
    of it. Raises Refused for what cannot be judged: FullyShardedDataParallel, DTensor parameters that fully_shard did not make,
    parameters of the optimiser that are none of the model's."""
    address = os.environ.get(ADDRESS)
    if not address:
        return
    import torch

    _refuse(model, optimizer, torch)
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    rank = torch.distributed.get_rank() if distributed else int(os.environ.get("RANK", "0"))
    channel = SocketChannel(address, int(os.environ[ORIGIN]), rank)
    Recorder(model, optimizer, channel, rank, every, torch).start()


def _refuse(model, optimizer, torch):
    kinds = {kind.__name__ for module in model.modules() for kind in type(module).__mro__}
    if "FullyShardedDataParallel" in kinds:
        raise Refused("watch: found FullyShardedDataParallel, which hides its parameters; wanted fully_shard or DistributedDataParallel")
    for name, param in model.named_parameters():
        if not is_dtensor(param):
            continue
        placements = [type(placement).__name__ for placement in param.placements]
        if "FSDPModule" not in kinds:
            raise Refused(f"watch: found {name} as a DTensor without fully_shard; collectives of tensor parallelism are not seen")
        if placements not in (["Shard"], ["Replicate", "Shard"]):
            raise Refused(f"watch: found {name} as a DTensor placed as {', '.join(placements)}; wanted fully_shard alone")
    own = {id(param) for param in model.parameters()}
    if any(id(param) not in own for group in optimizer.param_groups for param in group["params"]):
        raise Refused("watch: found a parameter of the optimiser that the model does not have")
    if not any(param.requires_grad for param in model.parameters()):
        raise Refused("watch: found no parameter that wants a gradient")


class Recorder:
    def __init__(self, model, optimizer, channel, rank, every, torch):
        self.torch = torch
        self.called = model  # by the script: what torch.compile made, where it did
        self.model = _uncompiled(model)
        self.inner = _uncompiled(self.model.module) if _is_ddp(self.model) else self.model
        self.optimizer = optimizer
        self.channel = channel
        self.rank = rank
        self.every = max(1, every)
        self.params = [(name, param) for name, param in self.inner.named_parameters() if param.requires_grad]
        self.params = [(name.replace("_orig_mod.", ""), param) for name, param in self.params]
        self.names = {id(param): name for name, param in self.params}
        self.indices = {id(param): index for index, (_, param) in enumerate(self.params)}
        self.sharded = any(is_dtensor(param) for _, param in self.params)
        self.reach = Reach(self.inner, self.params, torch)
        self.step = 1
        self.recorded = self.is_recorded()
        self.micro = -1
        self.sequences = {}  # of each group
        self.seen = {}  # name -> local gradient of this step: (order, times, l2, absmax, hash, state)
        self.buckets = {}
        self.reduced = {}  # name -> hash of what came out of the reduction
        self.hooks = {}  # name -> hook of its gradient
        self.apart = -(-len(self.params) // FEW_HOOKS)
        self.end_with_callbacks()
        self.on_its_way = []  # (event of the card, what is called once it is there)

    def start(self):
        torch = self.torch
        self.channel.write(
            "hello",
            pid=os.getpid(),
            torch_version=torch.__version__,
            device=next(self.inner.parameters()).device.type,
            backend=torch.distributed.get_backend() if self.distributed else "",
            threads=torch.get_num_threads(),
        )
        self.enter("data")
        outside = torch.compiler.disable  # nothing of ours becomes a part of what torch.compile makes
        self.hook_gradients()
        self.called.register_forward_pre_hook(outside(self.forward), with_kwargs=True)
        if self.sharded:
            self.called.register_forward_hook(outside(self.forward_done))
        self.optimizer.register_step_pre_hook(self.before_update)
        self.optimizer.register_step_post_hook(self.after_update)
        self.reach.watch_backward(lambda: self.recorded, self.backward_begins)
        if _is_ddp(self.model):
            self.communication_hook = Buckets(self)
            self.model.register_comm_hook(None, self.communication_hook.reduce)
            atexit.register(self.communication_hook.forget)  # before wait_for_callbacks
        if self.distributed:
            self.wrap_collectives()
        self.tell_errors()
        self.channel.on_beat = self.settle_all
        atexit.register(self.channel.end_calls)
        if self.distributed and "nccl" not in str(torch.distributed.get_backend()):
            self.channel.flight = lambda: flight.dump(torch)  # of NCCL's the controller asks PyTorch itself

    def is_recorded(self):
        """Whether this step's tensors are: every collective is, but not every tensor of a long run."""
        return self.step <= FIRST_STEPS or self.step % self.every == 0

    @property
    def distributed(self):
        return self.torch.distributed.is_available() and self.torch.distributed.is_initialized()

    def enter(self, phase):
        self.channel.enter(phase, self.step)

    def forward(self, module, args, kwargs):
        if module.training and self.torch.is_grad_enabled():  # else an evaluation, of any data
            self.micro += 1
            self.channel.enter("forward", self.step)
            if self.recorded:
                tensors = [value for value in [*args, *kwargs.values()] if isinstance(value, self.torch.Tensor)]
                self.channel.write("batch", step=self.step, micro=self.micro, of_rank=self.rank, sequence=0, hash=hash_of(tensors), source="")
        self.channel.moved()

    # A sharded module reduces its gradients before any of them is there.
    def forward_done(self, module, _, output):
        self.channel.moved()
        if module.training and self.torch.is_grad_enabled():
            for tensor in tensors_in(output, self.torch):
                if tensor.requires_grad:
                    tensor.register_hook(lambda _: self.enter("backward"))

    def hook_gradients(self):
        """Of each parameter where the step is recorded. A call into Python costs as much as an operator, so in other steps a few
        parameters are put into a list, which needs none."""
        self.hooks_all = self.recorded
        for hook in self.hooks.values():
            hook.remove()
        self.hooks.clear()
        gradient = self.torch.compiler.disable(self.gradient) if self.hooks_all else self.channel.hooked.append
        for name, param in self.params if self.hooks_all else self.params[:: self.apart]:
            if param.requires_grad:  # torch refuses a hook of one that is frozen now
                self.hooks[name] = param.register_post_accumulate_grad_hook(gradient)

    def backward_begins(self):
        if self.channel.phase != "backward":
            self.channel.enter("backward", self.step)
        if self.recorded and not self.seen:
            self.hook_gradients()  # the script may have unfrozen something since the step began

    def gradient(self, param):
        if self.channel.phase != "backward":
            self.enter("backward")
        self.channel.moved("hooks")
        if not self.recorded:
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

    def on_card(self, tensors):
        return any(tensor.is_cuda for tensor in tensors) and not self.torch.cuda.is_current_stream_capturing()

    def settle(self, done, on_card):
        """`done` once what the current stream waits for is there: NCCL's functions return as soon as they have told the card."""
        if not on_card:
            return done()
        event = self.torch.cuda.Event()
        event.record()
        self.on_its_way.append((event, done))
        return self.settle_all()

    def settle_all(self):
        """Also from the thread that sends heartbeats, while the script waits for the card. What two threads find is called once."""
        for pair in list(self.on_its_way):
            if pair[0].query():
                try:
                    self.on_its_way.remove(pair)
                except ValueError:
                    continue  # the other thread has it
                pair[1]()

    def end_with_callbacks(self):
        self.callbacks = []  # weak references to functions that torch holds
        atexit.register(self.wait_for_callbacks)

    def wait_for_callbacks(self):
        end = time.monotonic() + LET_GO_S
        while any(held() is not None for held in self.callbacks) and time.monotonic() < end:
            time.sleep(0.001)

    def before_update(self, *_):
        if self.recorded:
            self.enter("record")
            self.tell_gradients()
        self.channel.enter("optimizer", self.step)

    def tell_gradients(self):
        self.channel.write_all("gradient", self.rows_of_gradients())
        if self.sharded:
            return  # no rank holds what a norm is of
        norm = sum(self.measured(param.grad)[0] ** 2 for _, param in self.params) ** 0.5
        self.channel.write("sample", metric="grad_norm", step=self.step, value=real(norm))

    def rows_of_gradients(self):
        held = {id(param) for group in self.optimizer.param_groups for param in group["params"]}
        for index, (name, param) in enumerate(self.params):
            after = self.measured(param.grad)
            # What is there though no hook was called: of an earlier step, of another rank, or put there by the script.
            there = (-1, 0, *after[:2], "", after[3])
            if self.sharded and not self.seen and param.grad is not None:
                there = (index, 1, *after)  # a torch whose fully_shard calls no hooks
            order, times, l2, absmax, before, state = self.seen.get(name, there)
            reachable = True if times else self.reach.of(name)
            needed = param.requires_grad and (id(param) in held or reachable is True)
            yield dict(
                step=self.step,
                of_rank=self.rank,
                param=name,
                index=index,
                reachable=reachable,
                ready_count=min(times, 1) if self.micro > 0 else times,
                ready_order=order,
                bucket=self.buckets.get(name, -1),
                state=state if needed else "frozen",
                l2=real(l2),
                absmax=real(absmax),
                hash_before=before,
                hash_after=self.reduced.get(name, after[2]),
                reduced=param.grad is not None,
                **piece(param),
            )

    def after_update(self, *_):
        if self.recorded:
            rows = (dict(step=self.step, param=name, hash=hash_of([param.detach()]), **piece(param)) for name, param in self.params)
            self.channel.write_all("parameter", rows)
        self.step += 1
        self.micro = -1
        self.recorded = self.is_recorded()
        if self.recorded or self.hooks_all:
            self.seen, self.buckets, self.reduced = {}, {}, {}
            self.reach.begin()
        if self.recorded != self.hooks_all:
            self.hook_gradients()
        self.channel.enter("data", self.step, after_work=True)

    def entered(self, op, reduce_op, tensors, group):
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
            dtype=dtype_name(tensors[0]) if tensors else "",
            count=sum(tensor.numel() for tensor in tensors),
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
        before = sys.excepthook

        def told(kind, error, trace):
            try:
                self.tell_error(error)
            finally:
                before(kind, error, trace)

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
        )


def _uncompiled(model):
    return model._orig_mod if type(model).__name__ == "OptimizedModule" else model


def _is_ddp(model):
    return type(model).__name__ == "DistributedDataParallel"
