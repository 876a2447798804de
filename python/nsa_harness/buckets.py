"""The communication hook of DistributedDataParallel. It computes what is computed without one, to the last bit: divide, then sum. Every
bucket is reported together with its collective, in one piece, before the collective is issued.

It is registered at the first forward. If the script has registered a hook of its own by then, ours stays away. If the script
registers one later, ours hands the buckets over to it.

The hook runs in every step, so what does not change from step to step is made once for each bucket."""

import functools
import weakref

from nsa_harness.values import dtype_name, hash_of

GROUP = "default"
MOST_BUCKETS = 10_000  # of one part
JOINS = "joins"  # a fact: ranks may take fewer steps by right
OWN_HOOK = "whether the reduced gradients are the mean, because the script has a communication hook of its own"


class Buckets:
    def __init__(self, recorder, part):
        self.recorder = recorder
        self.first = MOST_BUCKETS * part.number  # number of its first bucket: no two parts share one
        self.known = {}  # (bucket, elements) -> Reduction. DistributedDataParallel makes its buckets anew after the first step
        self.model = part.model
        self.is_registered = False
        self.script_hook = None  # (state, hook) that the script registered after ours
        self.join_work = None
        self.reduced = 0  # buckets so far
        self._stand_in()
        recorder.guard(self._watch_join)()

    def _stand_in(self):
        """A script that registers its hook after ours is not refused. In the class: what the model itself holds would be in its copies."""
        kind = type(self.model)
        self.hook_of_class, register_builtin = kind.register_comm_hook, kind._register_builtin_comm_hook

        @functools.wraps(self.hook_of_class)
        def register_comm_hook(model, state, hook):
            if model is not self.model or not self.is_registered or self.script_hook is not None:
                return self.hook_of_class(model, state, hook)
            model._check_comm_hook(hook)
            self.recorder.not_judged(OWN_HOOK)
            self.script_hook = (state, hook)
            return None

        @functools.wraps(register_builtin)
        def register_builtin_comm_hook(model, kind):
            if model is not self.model or not self.is_registered or self.script_hook is not None:
                return register_builtin(model, kind)
            from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

            name = "fp16_compress_hook" if "FP16" in str(kind) else "allreduce_hook"
            return register_comm_hook(model, None, getattr(default_hooks, name))

        kind.register_comm_hook = register_comm_hook
        kind._register_builtin_comm_hook = register_builtin_comm_hook

    def register(self):
        """At the first forward. What stays without a hook is computed as ever, and its collectives are not seen."""
        if self.is_registered:
            return
        distributed = self.recorder.torch.distributed
        self.group = self.model.process_group
        size = self.size = self.group.size()
        if getattr(self.model, "_comm_hooks", None):
            self.recorder.not_judged(OWN_HOOK)
        elif self.model.gradient_as_bucket_view and size & (size - 1):
            # DistributedDataParallel multiplies some gradients by 1/size and divides others, which differ in the last bit.
            self.recorder.not_judged(
                f"the collectives of DistributedDataParallel, because with gradient_as_bucket_view and {size} ranks a hook would "
                "round the gradients in another way"
            )
        else:
            self.all_reduce = distributed.all_reduce  # what the script's own calls go through
            self.all_reduce = getattr(self.all_reduce, "__wrapped__", self.all_reduce)  # without a record around it
            self.sum = distributed.distributed_c10d.AllreduceOptions()  # what all_reduce(async_op=True) gives to a group
            if hasattr(self.sum, "asyncOp"):  # newer torch runs others on the stream of the computation
                self.sum.asyncOp = True
            try:
                self.hook_of_class(self.model, None, self.reduce)
                getattr(self.model, "_comm_hooks", [None]).pop()  # the reducer has it; the list is what copies and compiled models look at
                self.is_registered = True
            except RuntimeError:  # a torch that does not list its hooks, and has one
                self.recorder.not_judged(OWN_HOOK)
        self.register = lambda: None

    def _watch_join(self):
        """join(divide_by_initial_world_size=False) divides by the number of ranks that have not joined yet. Each forward asks for it."""
        from torch.distributed.algorithms.join import Join
        from torch.nn.parallel.distributed import _DDPJoinHook

        shadow, sit_out = _DDPJoinHook.main_hook, self.recorder.guard(self.recorder.sit_out)

        @functools.wraps(shadow)
        def main_hook(hook):
            shadow(hook)
            if hook.ddp is self.model:
                sit_out()

        _DDPJoinHook.main_hook = main_hook
        notify = Join.notify_join_context

        def notify_join_context(joinable):
            work = notify(joinable)
            if joinable is self.model:
                if work is not None and self.join_work is None:
                    self.recorder.channel.write("fact", name=JOINS, value="")
                self.join_work = work
            return work

        Join.notify_join_context = staticmethod(notify_join_context)

    def _ranks(self):
        """What the sum is divided by, of ranks that may have joined."""
        if self.model._divide_by_initial_world_size:
            return self.size
        self.join_work.wait()
        return int(self.join_work.result()[0].item())

    def reduce(self, _, bucket):
        self.reduced += 1
        if self.script_hook is not None:
            state, hook = self.script_hook
            return hook(state, bucket)
        buffer = bucket.buffer()
        try:  # in place of the guard's: it runs for every bucket of every step
            reduction = self._reduction(bucket, buffer) if self.recorder.guard.is_on else None
        except Exception as error:  # noqa: BLE001: the training goes on
            reduction = self.recorder.guard.failed("reduction", error)
        ranks = self.size if self.join_work is None else self._ranks()
        # As DistributedDataParallel does while it copies. A division rounds in another way, and so do NCCL's own means in 16 bits.
        if ranks > 1:
            buffer.mul_(1.0 / ranks)
        if buffer.is_complex():
            future = self.all_reduce(buffer, group=self.group, async_op=True).get_future()
        else:
            future = self.group.allreduce([buffer], self.sum).get_future()
        return future.then(_only_tensor if reduction is None else reduction.finish)

    def _reduction(self, bucket, buffer):
        place = (bucket.index(), buffer.numel())
        reduction = self.known.get(place)
        looks = self.recorder.recorded and self.recorder.looks()
        if reduction is None or looks:
            reduction = self.known[place] = Reduction(self, bucket, buffer, looks)
            self.recorder.keep(reduction)
        reduction.begin()
        return reduction

    def forget(self):
        """So that a reduction lives as long as torch holds it."""
        self.known.clear()


def _only_tensor(future):
    return future.value()[0]


class Reduction:
    """Of one bucket, one at a time: from the row of its collective to the row of its end."""

    def __init__(self, buckets, bucket, buffer, looks):
        recorder = self.recorder = buckets.recorder
        self.channel = recorder.channel
        self.is_cuda = buffer.is_cuda
        self.sequence = -1
        index = buckets.first + bucket.index()
        known = [id(param) for param in bucket.parameters() if id(param) in recorder.indices]
        indices = [recorder.indices[param] for param in known]
        self.names = [recorder.names[param] for param in known] if looks else []
        self.views = bucket.gradients() if looks else []
        for name in self.names:
            recorder.buckets[name] = index
        dtype, count = dtype_name(buffer), buffer.numel()
        self.bucket_row = self.channel.head(
            "bucket", f'"bucket": {index}, "elements": {count}, "dtype": "{dtype}", "params": {indices}, "step": '
        )
        self.row = self.channel.head(
            "collective", f'"op": "allreduce", "reduce_op": "sum", "dtype": "{dtype}", "count": {count}, "group": "{GROUP}", "sequence": '
        )
        self.done_row = self.channel.head("collective_done", f'"group": "{GROUP}", "sequence": ')

    def begin(self):
        recorder, channel = self.recorder, self.channel
        self.sequence = sequence = recorder.sequences.get(GROUP, 0)
        recorder.sequences[GROUP] = sequence + 1
        step, now = recorder.step, channel.moved("collectives_enqueued")
        channel.send(
            f'{self.bucket_row}{step}}}, "t_ms": {now}}}\n'
            f'{self.row}{sequence}, "step": {step}, "phase": "{channel.phase}", "micro": {max(0, recorder.micro)}}}, "t_ms": {now}}}\n'
        )

    def finish(self, future):
        result = future.value()[0]  # raises what the collective raised
        try:
            self._finished(result)
        except Exception as error:  # noqa: BLE001: the training goes on
            self.recorder.guard.failed("finished", error)
        return result

    def _finished(self, result):
        if self.is_cuda and self.recorder.on_card([result]):
            # What waits for the card holds no reduction: the process would wait for it at its end.
            self.recorder.settle(functools.partial(tell_done, self.channel, self.done_row, self.sequence), True)
        else:
            tell_done(self.channel, self.done_row, self.sequence)
        # What the script does with a gradient afterwards, clipping on one rank alone, is no fault of the reduction.
        for name, view in zip(self.names, self.views):
            self.recorder.reduced[name] = hash_of([view])
        self.names = self.views = ()  # a step that is not recorded uses this reduction again


def tell_done(channel, row, sequence):
    now = channel.moved("collectives_completed")
    channel.send(f'{row}{sequence}}}, "t_ms": {now}}}\n')
