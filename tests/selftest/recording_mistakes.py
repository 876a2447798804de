#!/usr/bin/env python3
"""Makes mistakes of the recorder in records of right trainings, and asks what the judge says of them.

    tests/selftest/recording_mistakes.py NSA_HARNESS [--only WORD] [--work DIR]

The training of each record is right, and passed. A mistake changes what was written of it as a bug in recording code
would. The change is in every place that this bug reaches, and sizes, hashes and seals are those of what was written, so
nothing looks altered afterwards. Outcomes of a mistake:

    refused    ERROR or INCONCLUSIVE, and the reason names the record: right
    undecided  INCONCLUSIVE, and the reason names what a check lacks without a word of the record: not counted as wrong
    unnamed    ERROR, and the reason does not name the record: wrong
    green      PASS: wrong
    model      an initiating finding accuses the model, the training or the machine: wrong
    died       the judge gave no judgement: wrong

Green and model are not wrong for mistakes that are invisible in principle: INVISIBLE lists them and says why. Of every
healthy case a control is read, written, sealed and judged in the same way, without a mistake. It must pass.

Exit code 0: nothing was wrong; 1: something was; 3: a healthy case or a control did not pass, a mistake changed nothing,
or a record was refused as altered. With --work the healthy runs stay in DIR, and are not made again."""

import argparse
import collections
import glob
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile

from kept_record import TWIN, Record, hash_hex, real

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SECONDS = 900  # for one run or one judgement

# The healthy cases: scenario, and what it is given. Small ones, on the CPU.
SMALL = ["model.dim=128", "model.n_layers=2", "model.n_heads=8", "model.n_kv_groups=2", "model.d_k=16", "model.d_v=16",
         "model.l=16", "model.d=8", "model.l_sel=32", "model.n_sel=4", "model.w=32"]  # fmt: skip
CASES = {
    "ranks": ("ddp_onestep", [*SMALL, "training.steps=2", "training.seq_len=160", "parallel.ddp.bucket_mb=0.25"], []),
    "accumulate": ("ragged", [], ["training.accumulate=2", "training.data.source=uniform"]),
    "replicated": ("replicated", [], ["training.precision=fp32"]),
    "checkpoint": ("dropout", [], ["training.precision=fp32", "parallel.checkpoint.layers=all"]),
    "fp16": ("precision", [], ["training.precision=fp16"]),
    "overflow": ("overflow", ["training.optimizer.warmup=3"], []),
    "resume": ("resume", [], ["life.kill_phase=backward", "training.precision=fp32"]),
    "decode": ("decode", [], ["attention.prefix=0.46"]),
    "attention": ("causality", [], ["attention.inputs=normal", "attention.prefix=0.5"]),
    "repeats": ("determinism", [], ["attention.inputs=normal", "training.precision=fp32"]),
    "throughput": ("throughput", [], ["route={attend_cmp: reference, attend_win: reference}"]),
}

# Mistakes that no judge can see, or cannot tell from a mistake of the training: the fact is written once, and nothing
# else in the record depends on it.
INVISIBLE = {
    "threads_miscounted": "the number of threads is written once, and results do not depend on it",
    "one_collective_twice": "a rank that issues one collective too many and does not wait for it leaves the same rows",
    "reads_cumulative": "an implementation that reads earlier keys again gives the same outputs; its counter alone tells",
    "scores_halved": "block scores serve to choose alone, and a model that halves them chooses the same blocks",
    "blocks_sorted": "a model that lists its blocks in descending order attends to the same keys",
    "weights_transposed": "a model that multiplies by transposed weights, forward and back, leaves the same rows and files",
    "reads_of_other_branch": "the counters are the implementation's own: one that counts wrongly leaves the same rows",
    "runs_doubled": "the counter is the implementation's own: one that runs twice and drops the first result leaves the same rows",
    "recompute_compared_with_gradient": "a layer that rounds otherwise when it is computed again leaves the same rows",
    "skipped_off_by_one": "the number is the optimiser's own word, and nothing is computed from it",
}

Mistake = collections.namedtuple("Mistake", "name case about make")
MISTAKES = []


def mistake(case):
    """The function makes it. Its sentence says what the recorder does wrong."""

    def add(make):
        MISTAKES.append(Mistake(make.__name__, case, make.__doc__, make))
        return make

    return add


# ---- tools -----------------------------------------------------------------------------------------------------------


def moved_on(rows, *keys):
    """Each row holds the values of the row before it, the first those of the last."""
    values = [[row[key] for key in keys] for row in rows]
    for row, old in zip(rows, values[-1:] + values[:-1]):
        row.update(zip(keys, old))


def exchanged(row, one, other):
    row[one], row[other] = row[other], row[one]


def of_writers(rows, *keys):
    """Rows by the values of keys, in the order in which they were written."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[tuple(row[key] for key in keys)].append(row)
    return list(groups.values())


def gradient_rows(record, process=None, **values):
    """Lists of the rows of one writer and step, in the order of the parameters."""
    lists = []
    for one in [process] if process is not None else [*record.ranks(), TWIN]:
        lists += of_writers(record.rows("gradient", one, **values), "step", "of_rank")
    return lists


def told_of(row, tensor):
    """What the gradient ledger writes of a local gradient."""
    row["hash_before"] = hash_hex(tensor.data)
    row["l2"] = tensor.l2()
    row["absmax"] = tensor.absmax()


def other_content(record, name, taken_from, process=None, **values):
    """Each file `name` holds what the file holds that `taken_from` finds for its row."""
    found = [(row, record.tensors(taken_from(row))) for _, row in record.files(name, process, **values)]
    for row, tensors in found:
        record.write(row, tensors)


def file_of(record, name, process, **values):
    (found,) = record.files(name, process, **values)
    return found[1]


def changed_tensors(record, name, change, process=None, **values):
    """`change` gets the row and the tensors of each file, and alters these."""
    for _, row in record.files(name, process, **values):
        tensors = record.tensors(row)
        change(row, tensors)
        record.write(row, tensors)


def in_all_ranks(record, kind, **values):
    return record.rows(kind, record.ranks(), **values)


# ---- the gradient ledger ---------------------------------------------------------------------------------------------


@mistake("ranks")
def l2_of_next_parameter(record):
    """the l2 of a gradient stands in the row of the next parameter"""
    for rows in gradient_rows(record):
        moved_on(rows, "l2")


@mistake("ranks")
def l2_without_root(record):
    """the l2 of a gradient is the sum of its squares, without the root"""
    for rows in gradient_rows(record):
        for row in rows:
            row["l2"] = real(row, "l2") ** 2


@mistake("ranks")
def absmax_is_a_mean(record):
    """absmax of a gradient is the mean of its magnitudes"""
    for process, file in record.files("local_gradients"):
        tensors = record.tensors(file)
        for row in record.rows("gradient", process, step=file["step"], of_rank=file["of_rank"]):
            numbers = tensors[row["param"]].numbers()
            row["absmax"] = math.fsum(abs(one) for one in numbers) / len(numbers)


@mistake("ranks")
def hashes_of_next_parameter(record):
    """every writer puts the hashes of a gradient into the row of the next parameter"""
    for rows in gradient_rows(record):
        moved_on(rows, "hash_before", "hash_after")


@mistake("ranks")
def rows_of_next_parameter(record):
    """the names of parameters are moved by one against all else that the ledger writes, on every writer"""
    for rows in gradient_rows(record):
        moved_on(rows, "param", "index")


@mistake("ranks")
def before_and_after_exchanged(record):
    """the hashes of the local and the reduced gradient are exchanged on the ranks"""
    for row in in_all_ranks(record, "gradient"):
        exchanged(row, "hash_before", "hash_after")


@mistake("ranks")
def ranks_exchanged_in_twin(record):
    """the twin writes the other rank's number into its gradient rows"""
    for row in record.rows("gradient", TWIN):
        row["of_rank"] = 1 - row["of_rank"]


@mistake("ranks")
def ready_twice(record):
    """each run of the ledger's hook counts twice"""
    for row in in_all_ranks(record, "gradient"):
        row["ready_count"] *= 2


@mistake("ranks")
def hooks_counted_before_own(record):
    """hooks after the backward are counted without the ledger's own"""
    for row in in_all_ranks(record, "gradient"):
        row["hooks_found"] -= 1


@mistake("ranks")
def unreachable(record):
    """the walk over the graph ends one parameter too early: the last one is written as not reachable, on every writer"""
    for rows in gradient_rows(record):
        rows[-1]["reachable"] = False


@mistake("ranks")
def small_is_zero(record):
    """a gradient whose largest number is below 1e-3 has the state zero"""
    for rows in gradient_rows(record):
        for row in rows:
            row["state"] = "zero" if real(row, "absmax") < 1e-3 else row["state"]


@mistake("ranks")
def nan_where_a_number_was(record):
    """l2 of every gradient of rank 1 in step 2 is NaN"""
    for row in record.rows("gradient", 1, step=2):
        row["l2"] = "NaN"


@mistake("ranks")
def gradient_rows_twice(record):
    """the rows of the gradient ledger of rank 0 in step 2 are written twice"""
    record.write_twice(record.events_of("gradient", 0, step=2))


@mistake("ranks")
def gradients_of_step_before(record):
    """in step 2 the ranks write the gradient rows of step 1 again, under the number of step 2"""
    for rank in record.ranks():
        old = {row["param"]: row for row in record.rows("gradient", rank, step=1)}
        for row in record.rows("gradient", rank, step=2):
            row.update(old[row["param"]], step=2)


@mistake("ranks")
def twin_numbers_ranks_backwards(record):
    """the twin writes gradients, rows and files, under the other rank's number"""
    other_content(
        record,
        "local_gradients",
        lambda row: file_of(record, "local_gradients", TWIN, step=row["step"], of_rank=1 - row["of_rank"]),
        TWIN,
    )
    for row in record.rows("gradient", TWIN):
        row["of_rank"] = 1 - row["of_rank"]


@mistake("ranks")
def reduced_of_step_before_in_rows_too(record):
    """the buffer of reduced gradients is not refreshed: file and hashes of step 2 are those of step 1, on every rank"""
    for rank in record.ranks():
        other_content(
            record, "reduced_gradients", lambda row, rank=rank: file_of(record, "reduced_gradients", rank, step=1), rank, step=2
        )
        old = {row["param"]: row["hash_after"] for row in record.rows("gradient", rank, step=1)}
        for row in record.rows("gradient", rank, step=2):
            row["hash_after"] = old[row["param"]]


@mistake("accumulate")
def local_before_accumulation_ended(record):
    """ranks and twin look at local gradients after the first micro-batch: file and rows are of it alone"""
    for process, file in record.files("local_gradients"):
        who = {"step": file["step"], "of_rank": file["of_rank"]}
        parts = record.tensors(file_of(record, "optimizer_step", file["of_rank"], **who))
        tensors = record.tensors(file)
        for row in record.rows("gradient", process, **who):
            tensors[row["param"]] = parts["part.0." + row["param"]]
            told_of(row, tensors[row["param"]])
        record.write(file, tensors)


@mistake("fp16")
def unscaled_l2(record):
    """the l2 and absmax of a local gradient are of the unscaled gradient; the file and its hashes are of the scaled one"""
    for rank in record.ranks():
        scale = {row["step"]: real(row, "value") for row in record.rows("sample", rank, metric="loss_scale")}
        for row in record.rows("gradient", rank):
            for key in ("l2", "absmax"):
                row[key] = real(row, key) / scale[row["step"]]


# ---- files of tensors ------------------------------------------------------------------------------------------------


@mistake("ranks")
def layer_of_other_layer(record):
    """the file of attention layer 1 holds the tensors of layer 0, on every writer"""
    for process in [*record.ranks(), TWIN]:
        other_content(
            record,
            "attention_layer",
            lambda row, process=process: file_of(
                record, "attention_layer", process, layer=0, step=row["step"], of_rank=row["of_rank"]
            ),
            process,
            layer=1,
        )


@mistake("ranks")
def layers_numbered_from_one(record):
    """rows of files of attention layers count layers from 1"""
    for _, row in record.files("attention_layer"):
        row["layer"] += 1


@mistake("ranks")
def layer_of_other_step(record):
    """the files of attention layers of step 2 hold the tensors of step 1, on the ranks"""
    for rank in record.ranks():
        other_content(
            record,
            "attention_layer",
            lambda row, rank=rank: file_of(record, "attention_layer", rank, step=1, layer=row["layer"]),
            rank,
            step=2,
        )


@mistake("ranks")
def reduced_of_step_before(record):
    """the file of reduced gradients of step 2 holds those of step 1, on every rank; the rows are right"""
    for rank in record.ranks():
        other_content(
            record, "reduced_gradients", lambda row, rank=rank: file_of(record, "reduced_gradients", rank, step=1), rank, step=2
        )


@mistake("ranks")
def local_file_after_reduction(record):
    """the file of local gradients is written after the reduction; the rows are right"""
    for rank in record.ranks():
        other_content(
            record,
            "local_gradients",
            lambda row, rank=rank: file_of(record, "reduced_gradients", rank, step=row["step"]),
            rank,
        )


@mistake("ranks")
def files_of_ranks_exchanged(record):
    """the twin's files of local gradients hold those of the other rank; the rows are right"""
    other_content(
        record,
        "local_gradients",
        lambda row: file_of(record, "local_gradients", TWIN, step=row["step"], of_rank=1 - row["of_rank"]),
        TWIN,
    )


@mistake("ranks")
def weights_after_update(record):
    """the weights in the file of an attention layer are those after the optimiser's step, on the ranks"""

    def change(row, tensors):
        after = record.tensors(file_of(record, "optimizer_step", row["of_rank"], step=row["step"]))
        for name in [name for name in tensors if name.startswith("w.")]:
            tensors[name] = after[f"p1.blocks.{row['layer']}.attn.{name[2:]}"]

    changed_tensors(record, "attention_layer", change, record.ranks())


@mistake("ranks")
def input_and_output_gradient_exchanged(record):
    """dx and dy of an attention layer are exchanged"""

    def change(_, tensors):
        exchanged(tensors, "dx", "dy")

    changed_tensors(record, "attention_layer", change)


@mistake("ranks")
def bytes_transposed(record):
    """heads and positions of q are written in the order of memory of a tensor that is not contiguous"""

    def change(_, tensors):
        tensor = tensors["q"]
        batch, heads, length, width = tensor.shape
        old = tensor.numbers()
        at = ((b * heads + h) * length + s for b in range(batch) for s in range(length) for h in range(heads))
        tensors["q"] = tensor.with_numbers([one for row in at for one in old[row * width : (row + 1) * width]])

    changed_tensors(record, "attention_layer", change, record.ranks())


@mistake("ranks")
def shape_transposed(record):
    """the shape of x is written with batch and positions exchanged, the bytes are right"""

    def change(_, tensors):
        shape = tensors["x"].shape
        shape[0], shape[1] = shape[1], shape[0]

    changed_tensors(record, "attention_layer", change, record.ranks())


@mistake("ranks")
def copy_not_finished(record):
    """the file is finished before the copy of o_win is: the second half of its numbers is zero"""

    def change(_, tensors):
        data = tensors["o_win"].data
        tensors["o_win"].data = data[: len(data) // 2] + bytes(len(data) - len(data) // 2)

    changed_tensors(record, "attention_layer", change, record.ranks(), layer=1)


@mistake("ranks")
def rounded_on_its_way(record):
    """y of every attention layer went through bf16 on its way to the file"""

    def change(_, tensors):
        data = bytearray(tensors["y"].data)
        data[0::4] = data[1::4] = bytes(len(data) // 4)
        tensors["y"].data = bytes(data)

    changed_tensors(record, "attention_layer", change, record.ranks())


@mistake("ranks")
def taken_before_update(record):
    """p1, the weights after the step, are taken before it, on the ranks"""

    def change(_, tensors):
        for name in [name for name in tensors if name.startswith("p1.")]:
            tensors[name] = tensors["p." + name[3:]]

    changed_tensors(record, "optimizer_step", change, record.ranks())


@mistake("ranks")
def moments_exchanged(record):
    """m1 and v1 are exchanged in the file of the optimiser's step"""

    def change(_, tensors):
        for name in [name for name in tensors if name.startswith("m1.")]:
            exchanged(tensors, name, "v1." + name[3:])

    changed_tensors(record, "optimizer_step", change)


@mistake("accumulate")
def logits_of_first_micro_batch(record):
    """the logits of the second micro-batch are those of the first"""

    def change(_, tensors):
        tensors["logits.1"] = tensors["logits.0"]

    changed_tensors(record, "optimizer_step", change)


@mistake("accumulate")
def parts_exchanged(record):
    """the shares of the two micro-batches in a gradient are exchanged"""

    def change(_, tensors):
        for name in [name for name in tensors if name.startswith("part.0.")]:
            exchanged(tensors, name, "part.1." + name[7:])

    changed_tensors(record, "optimizer_step", change)


@mistake("accumulate")
def loss_and_root_exchanged(record):
    """the loss of a micro-batch and what its backward starts from are exchanged"""

    def change(_, tensors):
        exchanged(tensors, "loss", "root")

    changed_tensors(record, "optimizer_step", change)


@mistake("accumulate")
def stages_of_other_layer(record):
    """the file of the stages of block 1 holds those of block 0, on the ranks"""

    def change(row, tensors):
        other = record.tensors(file_of(record, "block_stages", row["of_rank"], step=row["step"], layer=0))
        tensors.clear()
        tensors.update((name.replace("blocks.0.", "blocks.1."), tensor) for name, tensor in other.items())

    changed_tensors(record, "block_stages", change, record.ranks(), layer=1)


# ---- parameters, buckets, collectives, batches -----------------------------------------------------------------------


@mistake("ranks")
def parameters_of_step_before(record):
    """in step 2 every writer tells the hashes of the parameters after step 1"""
    for process in [*record.ranks(), TWIN]:
        old = {row["param"]: row["hash"] for row in record.rows("parameter", process, step=1)}
        for row in record.rows("parameter", process, step=2):
            row["hash"] = old[row["param"]]


@mistake("ranks")
def parameters_of_step_before_on_one(record):
    """in step 2 rank 1 alone tells the hashes of the parameters after step 1"""
    old = {row["param"]: row["hash"] for row in record.rows("parameter", 1, step=1)}
    for row in record.rows("parameter", 1, step=2):
        row["hash"] = old[row["param"]]


@mistake("ranks")
def parameters_of_one_rank_missing(record):
    """rank 1 writes no hashes of parameters after step 2"""
    record.drop(record.events_of("parameter", 1, step=2))


@mistake("ranks")
def hash_of_other_tensor(record):
    """the hash of one parameter stands in the row of another of the same shape, on rank 1"""
    rows = {row["param"]: row for row in record.rows("parameter", 1, step=2)}
    rows["blocks.0.norm1.weight"]["hash"] = rows["blocks.1.norm1.weight"]["hash"]


@mistake("ranks")
def buckets_of_step_before(record):
    """in step 2 the ranks write the bucket plan of step 1, in its rows and in those of the gradients"""
    for rank in record.ranks():
        old = [event["body"] for event in record.events_of("bucket", rank, step=1)]
        now = record.events_of("bucket", rank, step=2)
        for event, body in zip(now, old):
            event["body"] = {**body, "step": 2}
        record.drop(now[len(old) :])
        for event in now[len(now) - 1 :] * max(0, len(old) - len(now)):
            record.events.insert(record.events.index(event) + 1, {**event, "body": {**old[len(now)], "step": 2}})
        place = {index: body["bucket"] for body in old for index in body["params"]}
        for row in record.rows("gradient", rank, step=2):
            row["bucket"] = place[row["index"]]


@mistake("ranks")
def bucket_size_in_bytes(record):
    """the sizes of buckets are bytes in place of elements, on every rank"""
    for row in in_all_ranks(record, "bucket"):
        row["elements"] *= 4


@mistake("ranks")
def counts_in_bytes(record):
    """the counts of collectives are bytes in place of elements, on every rank"""
    for row in in_all_ranks(record, "collective"):
        row["count"] *= {"Float": 4, "Long": 8, "Double": 8, "Int": 4}.get(row["dtype"], 1)


@mistake("ranks")
def sequence_from_one(record):
    """rank 1 counts its collectives from 1"""
    for kind in ("collective", "collective_done"):
        for row in record.rows(kind, 1):
            row["sequence"] += 1


@mistake("ranks")
def last_collective_not_written(record):
    """rank 1 ends before its last collective is written, while its end is"""
    record.drop(record.events_of("collective", 1)[-1:])


@mistake("ranks")
def ends_of_collectives_missing(record):
    """rank 0 writes no end of any collective of step 2"""
    numbers = {row["sequence"] for row in record.rows("collective", 0, step=2)}
    record.drop([event for event in record.events_of("collective_done", 0) if event["body"]["sequence"] in numbers])


@mistake("ranks")
def one_collective_twice(record):
    """rank 0 writes its last collective twice, with the next number"""
    (last,) = record.events_of("collective", 0)[-1:]
    again = {**last, "body": {**last["body"], "sequence": last["body"]["sequence"] + 1}}
    record.events.insert(record.events.index(last) + 1, again)


@mistake("ranks")
def collective_row_twice(record):
    """rank 0 writes the row of its last collective twice"""
    record.write_twice(record.events_of("collective", 0)[-1:])


@mistake("ranks")
def batch_of_other_rank(record):
    """rank 1 writes the hashes of rank 0's sequences"""
    key = ("step", "micro", "sequence")
    of_other = {tuple(row[one] for one in key): row["hash"] for row in record.rows("batch", 0)}
    for row in record.rows("batch", 1):
        row["hash"] = of_other[tuple(row[one] for one in key)]


@mistake("accumulate")
def batch_of_first_micro_batch(record):
    """the hashes of the sequences of the second micro-batch are those of the first, on every writer"""
    key = ("step", "of_rank", "sequence")
    for process in [*record.ranks(), TWIN]:
        first = {tuple(row[one] for one in key): row["hash"] for row in record.rows("batch", process, micro=0)}
        for row in record.rows("batch", process, micro=1):
            row["hash"] = first[tuple(row[one] for one in key)]


@mistake("ranks")
def right_sums_counted_as_wrong(record):
    """of a sum that is known beforehand the right elements are counted in place of the wrong ones"""
    for row in in_all_ranks(record, "exact_sum"):
        row["wrong"] = row["elements"] - row["wrong"]


# ---- samples, routes, steps ------------------------------------------------------------------------------------------


@mistake("accumulate")
def loss_is_a_sum(record):
    """the loss of a step is the sum over its micro-batches, on every writer"""
    for row in record.rows("sample"):
        if row["metric"].startswith("loss") and row["metric"] != "loss_scale":
            row["value"] = real(row, "value") * 2


@mistake("ranks")
def loss_is_nan(record):
    """rank 1 writes NaN as its loss of step 2"""
    for row in record.rows("sample", 1, metric="loss", step=2):
        row["value"] = "NaN"


@mistake("ranks")
def norm_without_root(record):
    """the norm of all gradients is the sum of squares, without the root, on every writer"""
    for row in record.rows("sample", metric="grad_norm"):
        row["value"] = real(row, "value") ** 2


@mistake("overflow")
def rate_of_step_before(record):
    """the learning rate of a step is that of the step taken before it"""
    rows = record.rows("sample", 0, metric="lr")
    for row, value in zip(rows[1:], [row["value"] for row in rows]):
        row["value"] = value


@mistake("ranks")
def updates_numbered_from_zero(record):
    """the rows of the update ledger count steps from 0"""
    for row in record.rows("update"):
        row["step"] -= 1


@mistake("ranks")
def update_compared_with_itself(record):
    """the update ledger compares the weights after the step with themselves: all that was wanted is lost"""
    for row in record.rows("update"):
        row["lost"] = row["wanted"]


@mistake("ranks")
def runs_doubled(record):
    """runs of every implementation are counted twice"""
    for row in record.rows("route"):
        row["forward"] *= 2
        row["backward"] *= 2


@mistake("ranks")
def routes_of_other_layer(record):
    """rows of implementations count layers from 1, on every writer"""
    for row in record.rows("route"):
        row["layer"] += row["layer"] >= 0


@mistake("ranks")
def parameters_of_model_miscounted(record):
    """the number of parameters of the model is that of its tensors"""
    for process in [*record.ranks(), TWIN]:
        (tensors,) = record.rows("fact", process, name="parameter_tensors")
        for row in record.rows("fact", process, name="parameters"):
            row["value"] = tensors["value"]


# ---- gates, exposure, blocks -----------------------------------------------------------------------------------------


@mistake("ranks")
def gates_before_softmax(record):
    """the means of the gates are from before the softmax, on every writer"""
    for row in record.rows("gate_use"):
        for key in ("mean_cmp", "mean_sel", "mean_win"):
            row[key] = math.log(real(row, key) * 3)


@mistake("ranks")
def gates_before_softmax_in_file_too(record):
    """gates are taken before the softmax: the tensor in the file, and of it hash, means and spread, on the ranks"""

    def change(row, tensors):
        numbers = [math.log(one * 3) for one in tensors["gate"].numbers()]
        tensors["gate"] = tensors["gate"].with_numbers(numbers)
        (told_use,) = record.rows("gate_use", row["of_rank"], step=row["step"], layer=row["layer"])
        branches = [numbers[i::3] for i in range(3)]
        for key, branch in zip(("mean_cmp", "mean_sel", "mean_win"), branches):
            told_use[key] = math.fsum(branch) / len(branch)
        told_use["spread"] = max(max(branch) - min(branch) for branch in branches)
        told_use["hash"] = hash_hex(tensors["gate"].data)

    changed_tensors(record, "attention_layer", change, record.ranks())


@mistake("ranks")
def gates_of_other_branch(record):
    """the means of the compressed and the window branch are exchanged, on every writer"""
    for row in record.rows("gate_use"):
        exchanged(row, "mean_cmp", "mean_win")


@mistake("ranks")
def spread_of_one_row(record):
    """the spread of the gates is taken along the wrong axis: 0, on every writer"""
    for row in record.rows("gate_use"):
        row["spread"] = 0.0


@mistake("ranks")
def gates_of_other_layer(record):
    """the gates of layer 1 are those of layer 0, hash included, on every writer"""
    for process in [*record.ranks(), TWIN]:
        for rows in of_writers(record.rows("gate_use", process), "step"):
            by_layer = of_writers(rows, "layer")
            for zero, one in zip(by_layer[0], by_layer[1]):
                one.update(zero, layer=1)


@mistake("ranks")
def kept_counted_as_dropped(record):
    """rows that dropped no block are counted as those that did, on every writer"""
    for row in record.rows("exposure"):
        row["rows_dropped"] = row["rows"] - row["rows_dropped"]


@mistake("ranks")
def nothing_dropped(record):
    """padding is counted as a chosen block: no row dropped one, on every writer"""
    for row in record.rows("exposure"):
        row["rows_dropped"] = 0


@mistake("replicated")
def blocks_of_other_layer(record):
    """rank 1 writes the blocks that layer 0 chose as those of layer 1"""
    for rows in of_writers(record.rows("block_choice", 1), "step", "of_rank"):
        chosen = {row["layer"]: row for row in rows}
        chosen[1]["blocks"] = chosen[0]["blocks"]


@mistake("replicated")
def scores_and_blocks_exchanged(record):
    """the hashes of scores and blocks are exchanged, on every writer"""
    for row in record.rows("block_choice"):
        exchanged(row, "scores", "blocks")


@mistake("replicated")
def blocks_of_other_layer_everywhere(record):
    """every writer writes the blocks and scores that layer 0 chose as those of layer 1"""
    for process in [*record.ranks(), TWIN]:
        for rows in of_writers(record.rows("block_choice", process), "step", "of_rank"):
            chosen = {row["layer"]: row for row in rows}
            chosen[1].update(blocks=chosen[0]["blocks"], scores=chosen[0]["scores"])


# ---- checkpointing and dropout ---------------------------------------------------------------------------------------


@mistake("checkpoint")
def equal_rows_counted_as_differing(record):
    """rows whose recomputed blocks are equal are counted as differing"""
    for row in record.rows("recompute"):
        row["rows_differing"] = row["rows"] - row["rows_differing"]


@mistake("checkpoint")
def recomputed_blocks_of_other_layer(record):
    """the hash of recomputed blocks is that of the layer whose backward ran before"""
    for process in [*record.ranks(), TWIN]:
        for rows in of_writers(record.rows("recompute", process), "step", "micro"):
            moved_on(rows, "blocks_recompute")


@mistake("checkpoint")
def recompute_compared_with_gradient(record):
    """the output of a block is compared with another tensor: never equal"""
    for row in record.rows("recompute"):
        row["output_equal"] = False


@mistake("checkpoint")
def recompute_of_last_layer_missing(record):
    """what layer 1 computed again is not written"""
    record.drop(record.events_of("recompute", layer=1))


@mistake("checkpoint")
def dropout_sites_exchanged(record):
    """the masks of attention and MLP are exchanged, on the ranks"""
    for row in in_all_ranks(record, "dropout_mask"):
        row["site"] = 1 - row["site"]


@mistake("checkpoint")
def dropout_of_other_rank_in_twin(record):
    """the twin writes its masks under the other rank's number"""
    for row in record.rows("dropout_mask", TWIN):
        row["of_rank"] = 1 - row["of_rank"]


# ---- fp16, loss scale, resuming --------------------------------------------------------------------------------------


@mistake("fp16")
def loss_scale_of_next_step(record):
    """the loss scale is halved in what is written of it"""
    for row in record.rows("sample", metric="loss_scale"):
        row["value"] = real(row, "value") / 2


@mistake("overflow")
def skipped_inverted(record):
    """the update ledger says of steps that were taken that they were skipped, and the other way round"""
    for row in record.rows("update"):
        row["skipped"] = not row["skipped"]


@mistake("overflow")
def skipped_off_by_one(record):
    """the number of skipped steps is that before the step"""
    for rows in of_writers(record.rows("sample", 0, metric="skipped_steps"), "metric"):
        for later, value in zip(rows[1:], [row["value"] for row in rows]):
            later["value"] = value
        rows[0]["value"] = 0.0


@mistake("overflow")
def masters_rounded(record):
    """the file of the optimiser's step holds the rounded weights in place of the masters"""

    def change(_, tensors):
        for name in [name for name in tensors if name.startswith(("w.", "w1."))]:
            stored = "p" + name[1:]
            tensors[stored] = tensors[stored].with_numbers(tensors[name].numbers())

    changed_tensors(record, "optimizer_step", change)


@mistake("overflow")
def snapshot_bytes_halved(record):
    """the size of a snapshot is counted in numbers of two bytes"""
    for row in record.rows("snapshot", use="saved"):
        row["bytes"] //= 2


@mistake("resume")
def resumed_one_step_later(record):
    """the step after which a run goes on is one too large, in the row of the snapshot and in those of what was read back"""
    (event,) = record.events_of("snapshot", use="resumed")
    step, after = event["body"]["step"], record.events.index(event)
    end = next(i for i, one in enumerate(record.events) if i > after and one["kind"] == "phase" and one["process"] == 0)
    for one in record.events[after:end]:
        if one["process"] == 0 and one["body"].get("step") == step:
            one["body"]["step"] += 1


@mistake("resume")
def state_of_moments_before(record):
    """after the run went on, rank 0 takes the hash of the moments before each step"""
    (event,) = record.events_of("snapshot", use="resumed")
    after = record.events.index(event)
    rows = [one["body"] for one in record.events_of("state", 0, part="moments") if record.events.index(one) > after]
    for row, old in zip(rows[1:], [row["hash"] for row in rows]):
        row["hash"] = old


@mistake("resume")
def schedule_counts_from_one(record):
    """the schedule's count of steps is one too large in every row"""
    for row in record.rows("state", part="schedule"):
        row["hash"] = str(int(row["hash"]) + 1)


@mistake("resume")
def parameters_read_back_missing(record):
    """what was read back from the snapshot is not written"""
    (event,) = record.events_of("snapshot", use="resumed")
    after = record.events.index(event)
    end = next(i for i, one in enumerate(record.events) if i > after and one["kind"] == "phase" and one["process"] == 0)
    record.drop([one for one in record.events[after:end] if one["kind"] in ("parameter", "state")])


# ---- decoding --------------------------------------------------------------------------------------------------------


@mistake("decode")
def reads_cumulative(record):
    """reads are summed over the steps so far in place of those of one step"""
    for rows in of_writers(record.rows("reads"), "layer", "branch"):
        total = 0
        for row in rows:
            total += row["tokens"]
            row["tokens"] = total


@mistake("decode")
def positions_from_one(record):
    """positions of queries in rows of reads count from 1"""
    for row in record.rows("reads"):
        row["step"] += 1


@mistake("decode")
def reads_of_other_branch(record):
    """reads of the selected branch and of the window are exchanged"""
    for row in record.rows("reads"):
        row["branch"] = {"sel": "win", "win": "sel"}.get(row["branch"], row["branch"])


@mistake("decode")
def steps_of_other_layer(record):
    """the file of single tokens of layer 1 holds those of layer 0"""
    other_content(record, "decode_steps", lambda row: file_of(record, "decode_steps", 0, layer=0), layer=1)


@mistake("decode")
def first_token_missing(record):
    """the output of the first single token is that of the second"""

    def change(_, tensors):
        batch, length, width = tensors["y"].shape
        old = tensors["y"].numbers()
        for b in range(batch):
            begin = b * length * width
            old[begin : begin + width] = old[begin + width : begin + 2 * width]
        tensors["y"] = tensors["y"].with_numbers(old)

    changed_tensors(record, "decode_steps", change)


@mistake("decode")
def prompt_one_longer(record):
    """the prompt is written one token longer than it was"""
    for row in record.rows("sample", metric="prompt_tokens"):
        row["value"] = real(row, "value") + 1


# ---- layers alone ----------------------------------------------------------------------------------------------------


@mistake("attention")
def first_pass_written_again(record):
    """the file of the pass with another end holds the first pass"""
    other_content(
        record, "attention_layer_perturbed", lambda row: file_of(record, "attention_layer", 0, layer=row["layer"])
    )


@mistake("attention")
def perturbed_from_one_later(record):
    """the place from which the end is another is written one too large"""
    for row in record.rows("sample", metric="perturbed_from"):
        row["value"] = real(row, "value") + 1


@mistake("attention")
def weights_transposed(record):
    """square weights are written transposed in both passes"""

    def transposed(_, tensors):
        for name, tensor in tensors.items():
            if name.startswith("w.") and len(tensor.shape) == 2 and tensor.shape[0] == tensor.shape[1]:
                old, size = tensor.numbers(), tensor.shape[0]
                tensors[name] = tensor.with_numbers([old[j * size + i] for i in range(size) for j in range(size)])

    for name in ("attention_layer", "attention_layer_perturbed"):
        changed_tensors(record, name, transposed)


@mistake("attention")
def scores_halved(record):
    """the scores of blocks in the files of both passes are half as large"""

    def change(_, tensors):
        tensors["p_grp"] = tensors["p_grp"].with_numbers([one / 2 for one in tensors["p_grp"].numbers()])

    for name in ("attention_layer", "attention_layer_perturbed"):
        changed_tensors(record, name, change)


@mistake("attention")
def blocks_sorted(record):
    """blocks are written in descending order in the files of both passes"""

    def change(_, tensors):
        tensor = tensors["blocks"]
        width, old = tensor.shape[-1], tensor.numbers()
        rows = (old[at : at + width] for at in range(0, len(old), width))
        tensors["blocks"] = tensor.with_numbers([one for row in rows for one in sorted(row, reverse=True)])

    for name in ("attention_layer", "attention_layer_perturbed"):
        changed_tensors(record, name, change)


@mistake("repeats")
def repeat_of_other_layer(record):
    """the file of the second pass of layer 1 holds that of layer 0"""
    other_content(record, "attention_layer_2", lambda row: file_of(record, "attention_layer_2", 0, layer=0), layer=1)


@mistake("repeats")
def alone_is_first_sequence(record):
    """the file of the last sequence alone holds the first sequence of the batch"""

    def change(row, tensors):
        batch = record.tensors(file_of(record, "attention_layer", 0, layer=row["layer"]))
        for name, tensor in tensors.items():
            whole = batch[name]
            if tensor.shape[0] == 1 and whole.shape == [2, *tensor.shape[1:]]:
                tensor.data = whole.data[: len(tensor.data)]

    changed_tensors(record, "attention_layer_alone", change)


# ---- times and processes ---------------------------------------------------------------------------------------------


@mistake("throughput")
def times_halved(record):
    """the times of steps are halved where they are written; the tokens per second are right"""
    for row in record.rows("sample", metric="step_ms"):
        row["value"] = real(row, "value") / 2


@mistake("throughput")
def clock_halved(record):
    """the clock that times steps runs at half speed: all that follows from it is written accordingly"""
    for row in record.rows("sample"):
        factor = {"step_ms": 0.5, "control_ms": 0.5, "tokens_per_s": 2.0}.get(row["metric"], 1.0)
        row["value"] = real(row, "value") * factor


@mistake("throughput")
def tokens_of_one_sequence(record):
    """tokens are counted for one sequence of the batch"""
    for row in record.rows("sample"):
        if row["metric"] == "tokens_per_s":
            row["value"] = real(row, "value") / 2


@mistake("ranks")
def steps_of_phases_from_zero(record):
    """phases count steps from 0"""
    for row in in_all_ranks(record, "phase"):
        row["step"] = max(0, row["step"] - 1)


@mistake("ranks")
def done_missing(record):
    """rank 1 does not write that it is done"""
    record.drop(record.events_of("done", 1))


@mistake("ranks")
def threads_miscounted(record):
    """the number of threads of a rank is written one too large"""
    for row in in_all_ranks(record, "hello"):
        row["threads"] += 1


@mistake("ranks")
def hello_twice(record):
    """rank 0 writes its first row twice"""
    record.write_twice(record.events_of("hello", 0))


# ---- runs and judgements ---------------------------------------------------------------------------------------------


def told(done):
    return (done.stdout + done.stderr).strip()[-600:]


def healthy(program, name, work):
    """The folder of a run that passed."""
    scenario, values, only = CASES[name]
    folder = os.path.join(work, name)
    if not os.path.exists(os.path.join(folder, "passed")):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        words = [program, "run", os.path.join(ROOT, "scenarios", scenario + ".yaml"), "--profile", "base", "--keep", "--quiet"]
        words += ["--db", os.path.join(folder, "runs.db")]
        for value in values:
            words += ["--set", value]
        for value in only:
            words += ["--only", value]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=SECONDS)
        if done.returncode != 0:
            print(f"healthy case {name}: exit code {done.returncode}: {told(done)}", file=sys.stderr)
            sys.exit(3)
        with open(os.path.join(folder, "passed"), "w", encoding="utf-8"):
            pass
    (run,) = glob.glob(os.path.join(folder, "runs", "*"))
    return run


def copied(run, folder):
    """Files of tensors are linked: Record.write() makes new ones."""
    there = os.path.join(folder, "runs", os.path.basename(run))
    for where, _, names in os.walk(run):
        at = os.path.join(there, os.path.relpath(where, run))
        os.makedirs(at, exist_ok=True)
        for name in names:
            take = os.link if name.endswith(".safetensors") else shutil.copy2
            take(os.path.join(where, name), os.path.join(at, name))
    return there


def case_folder(run):
    (packed,) = glob.glob(os.path.join(run, "*", "events.jsonl.zst"))
    return os.path.dirname(packed)


Judged = collections.namedtuple("Judged", "outcome reason findings exit")


def judged(program, run, folder):
    database = os.path.join(folder, "judged.db")
    words = [program, "db", "rebuild", run, "--db", database]
    made = subprocess.run(words, capture_output=True, text=True, check=False, timeout=SECONDS)
    words = [program, "judge", os.path.basename(run), "--db", database, "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=SECONDS)
    if made.returncode != 0 or "CANNOT JUDGE" in done.stderr:
        print(f"{run}: not taken as a record that nobody altered: {told(made)} {done.stderr.strip()}", file=sys.stderr)
        sys.exit(3)
    if done.returncode < 0 or not done.stdout:
        return Judged("NONE", f"no judgement: {told(done)}", [], done.returncode)
    (case,) = json.loads(done.stdout)["cases"]
    with open(os.path.join(case_folder(run), "verdicts.jsonl"), encoding="utf-8") as file:
        says = json.loads(file.readlines()[-1])["says"]
    again = case["judged_again"]
    if not again["whole"]:
        print(f"{run}: judged as a record that somebody altered: {again['lacking']}", file=sys.stderr)
        sys.exit(3)
    return Judged(again["outcome"], again["reason"], says["findings"], done.returncode)


# The reason speaks of what was written, not of what was computed.
OF_RECORD = re.compile(r"\brecord|\brows?\b|\bledger\b|\bevidence\b|\bfiles?\b|\bwritten\b|safetensors", re.IGNORECASE)


def class_of(found):
    if found.outcome == "NONE":
        return "died"
    if any(finding["role"] == "initiating" for finding in found.findings):
        return "model"
    if found.outcome == "PASS":
        return "green"
    if found.outcome not in ("ERROR", "INCONCLUSIVE"):
        return "model"
    if OF_RECORD.search(found.reason):
        return "refused"
    return "undecided" if found.outcome == "INCONCLUSIVE" else "unnamed"


def tried(program, name, make, run, work):
    with tempfile.TemporaryDirectory(dir=work, prefix="copy_") as folder:
        copy = copied(run, folder)
        record = Record(case_folder(copy))
        before = json.dumps(record.events)
        make(record)
        if make != nothing and json.dumps(record.events) == before:
            return None
        record.save()
        return judged(program, copy, folder)


def nothing(record):
    """The control: what is read, written and sealed again is the healthy record, files of tensors too."""
    for _, row in {row["path"]: (process, row) for process, row in record.all_files()}.values():
        old = row["hash"]
        record.write(row, record.tensors(row))
        if row["hash"] != old:
            print(f"{row['path']}: this script writes a file of tensors otherwise than the program", file=sys.stderr)
            sys.exit(3)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--only", default="", help="mistakes and cases whose name has this word in it")
    parser.add_argument("--work", help="folder of the healthy runs")
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    os.environ.setdefault("NSA_HARNESS_TREE", ROOT)
    work = os.path.abspath(options.work) if options.work else tempfile.mkdtemp(prefix="nsa_mistakes_")
    os.makedirs(work, exist_ok=True)
    chosen = [one for one in MISTAKES if options.only in one.name or options.only == one.case]
    counts = collections.Counter()
    wrong = 0
    try:
        runs = {name: healthy(program, name, work) for name in CASES if any(one.case == name for one in chosen)}
        for name, run in runs.items():
            control = tried(program, name, nothing, run, work)
            if control.outcome != "PASS":
                print(f"{name}: without a mistake {control.outcome}: {control.reason}", file=sys.stderr)
                return 3
        for one in chosen:
            found = tried(program, one.name, one.make, runs[one.case], work)
            if found is None:
                counts["without a change"] += 1
                print(f"UNMADE  {one.case}/{one.name}: changes nothing in this record")
                continue
            kind = class_of(found)
            invisible = kind in ("green", "model") and one.name in INVISIBLE
            allowed = kind in ("refused", "undecided") or invisible
            counts[kind + (" (invisible)" if invisible else "")] += 1
            wrong += not allowed
            first = next((f["code"] for f in found.findings if f["role"] == "initiating"), "-")
            print(f"{'' if allowed else 'WRONG '}{kind}  {one.case}/{one.name}: {one.about}")
            print(f"    {found.outcome} (exit code {found.exit})  {first}  {' '.join(found.reason.split())[:400]}", flush=True)
            if invisible:
                print(f"    invisible in principle: {INVISIBLE[one.name]}")
    finally:
        if not options.work:
            shutil.rmtree(work, ignore_errors=True)
    told_counts = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
    print(f"{len(chosen)} mistakes: {told_counts}; {wrong} wrong")
    return 3 if counts["without a change"] else 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
