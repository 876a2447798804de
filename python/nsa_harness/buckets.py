"""The communication hook of DistributedDataParallel. It does what is done without one: divide, then sum. Every bucket is told together with
its collective, in one piece, before the collective is issued.

The hook runs in every step, so what does not change from step to step is made once for each bucket."""

import functools
import weakref

from nsa_harness.values import dtype_name, hash_of

GROUP = "default"


class Buckets:
    def __init__(self, recorder):
        self.recorder = recorder
        self.known = {}  # (bucket, elements) -> Reduction. DistributedDataParallel makes its buckets anew after the first step
        self.group = recorder.model.process_group
        self.all_reduce = recorder.torch.distributed.all_reduce  # without a record around it
        self.sum = recorder.torch.distributed.distributed_c10d.AllreduceOptions()  # what all_reduce(async_op=True) gives to a group
        if hasattr(self.sum, "asyncOp"):  # newer torch runs others on the stream of the computation
            self.sum.asyncOp = True

    def reduce(self, _, bucket):
        buffer = bucket.buffer()
        place = (bucket.index(), buffer.numel())
        reduction = self.known.get(place)
        if reduction is None or self.recorder.recorded:
            reduction = self.known[place] = Reduction(self, bucket, buffer)
            self.recorder.keep(reduction)
        return reduction.begin(buffer)

    def forget(self):
        """So that a reduction lives as long as torch holds it."""
        self.known.clear()


class Reduction:
    """Of one bucket, one at a time: from the row of its collective to the row of its end."""

    def __init__(self, buckets, bucket, buffer):
        recorder = self.recorder = buckets.recorder
        self.channel = recorder.channel
        self.buckets = buckets
        self.size = buckets.group.size()
        self.is_complex = buffer.is_complex()
        self.is_cuda = buffer.is_cuda
        self.sequence = -1
        indices = [recorder.indices[id(param)] for param in bucket.parameters()]
        recorded = recorder.recorded
        self.names = [recorder.params[index][0] for index in indices] if recorded else []
        self.views = bucket.gradients() if recorded else []
        for name in self.names:
            recorder.buckets[name] = bucket.index()
        dtype, count = dtype_name(buffer), buffer.numel()
        self.bucket_row = self.channel.head(
            "bucket", f'"bucket": {bucket.index()}, "elements": {count}, "dtype": "{dtype}", "params": {indices}, "step": '
        )
        self.row = self.channel.head(
            "collective", f'"op": "allreduce", "reduce_op": "sum", "dtype": "{dtype}", "count": {count}, "group": "{GROUP}", "sequence": '
        )
        self.done_row = self.channel.head("collective_done", f'"group": "{GROUP}", "sequence": ')

    def begin(self, buffer):
        recorder, channel = self.recorder, self.channel
        self.sequence = sequence = recorder.sequences.get(GROUP, 0)
        recorder.sequences[GROUP] = sequence + 1
        step, now = recorder.step, channel.moved("collectives_enqueued")
        channel.send(
            f'{self.bucket_row}{step}}}, "t_ms": {now}}}\n'
            f'{self.row}{sequence}, "step": {step}, "phase": "{channel.phase}", "micro": {max(0, recorder.micro)}}}, "t_ms": {now}}}\n'
        )
        if self.size > 1:
            buffer.div_(self.size)
        buckets = self.buckets
        if self.is_complex:
            return buckets.all_reduce(buffer, group=buckets.group, async_op=True).get_future().then(self.finish)
        return buckets.group.allreduce([buffer], buckets.sum).get_future().then(self.finish)

    def finish(self, future):
        result = future.value()[0]
        if self.is_cuda and self.recorder.on_card([result]):
            # What waits for the card holds no reduction: the process would wait for it at its end.
            self.recorder.settle(functools.partial(tell_done, self.channel, self.done_row, self.sequence), True)
        else:
            tell_done(self.channel, self.done_row, self.sequence)
        # What the script does with a gradient afterwards, clipping on one rank alone, is no fault of the reduction.
        for name, view in zip(self.names, self.views):
            self.recorder.reduced[name] = hash_of([view])
        self.names = self.views = ()  # a step that is not recorded uses this reduction again
        return result


def tell_done(channel, row, sequence):
    now = channel.moved("collectives_completed")
    channel.send(f'{row}{sequence}}}, "t_ms": {now}}}\n')
