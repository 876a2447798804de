"""The collectives of torch.distributed that a script calls, each with a record around it."""

import functools

from nsa_harness.values import dtype_name, tensors_in

# What is called, its name in the record, which argument holds what is sent, by place and name, and at which place the kind of a
# reduction is (None: it is none).
COLLECTIVES = {
    "all_reduce": ("allreduce", (0, "tensor"), 1),
    "broadcast": ("broadcast", (0, "tensor"), None),
    "reduce": ("reduce", (0, "tensor"), 2),
    "all_gather": ("allgather", (1, "tensor"), None),
    "all_gather_into_tensor": ("allgather", (1, "input_tensor"), None),
    "reduce_scatter": ("reduce_scatter", (1, "input_list"), 2),
    "reduce_scatter_tensor": ("reduce_scatter", (1, "input"), 2),
    "all_to_all": ("alltoall", (1, "input_tensor_list"), None),
    "all_to_all_single": ("alltoall", (1, "input"), None),
    "gather": ("gather", (0, "tensor"), None),
    "scatter": ("scatter", (0, "tensor"), None),
    # Each issues several collectives of tensors, and comes back when they are done.
    "all_gather_object": ("allgather_object", None, None),
    "broadcast_object_list": ("broadcast_object", None, None),
    "gather_object": ("gather_object", None, None),
    "scatter_object_list": ("scatter_object", None, None),
    "barrier": ("barrier", None, None),
}
OWN_SIZES = ("alltoall",)  # of which ranks give different amounts by right


def _reduction(kind):
    """ "sum" of ReduceOp.SUM; of one with a factor as well, which prints an address."""
    return str(getattr(kind, "op", kind)).rsplit(".", 1)[-1].lower()


def wrapped(recorder, function, op, sent, reduces):
    """`function`, which reports its call before it is issued and its end. An error of the report never reaches the caller."""
    torch = recorder.torch
    is_compiling = getattr(torch.compiler, "is_compiling", lambda: False)

    def argument(args, kwargs, place, name, default=None):
        return args[place] if place < len(args) else kwargs.get(name, default)

    def entered(args, kwargs):
        tensors = tensors_in(argument(args, kwargs, *sent), torch) if sent else []
        count = sum(tensor.numel() for tensor in tensors) if op not in OWN_SIZES else 0
        name = "" if reduces is None else _reduction(argument(args, kwargs, reduces, "op", "SUM"))
        return tensors, recorder.entered(op, name, dtype_name(tensors[0]) if tensors else "", count, kwargs.get("group"))

    def left(begun, result, kwargs):
        tensors, done = begun
        on_card = recorder.on_card(tensors)
        if kwargs.get("async_op"):
            recorder.then(result.get_future(), lambda _: recorder.settle(done, on_card))
        else:
            recorder.settle(done, on_card)

    entered, left = recorder.guard(entered), recorder.guard(left)

    @functools.wraps(function)
    def collective(*args, **kwargs):
        if is_compiling():  # what torch.compile makes holds nothing of ours
            return function(*args, **kwargs)
        begun = entered(args, kwargs)
        result = function(*args, **kwargs)
        if begun is not None:
            left(begun, result, kwargs)
        return result

    return collective
