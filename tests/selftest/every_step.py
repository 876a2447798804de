#!/usr/bin/env python3
"""Is a mistake found in whichever step it happens?
    tests/selftest/every_step.py NSA_HARNESS [--runs 128] [--seed 1] [--only WORD] [--wrapper ddp|fsdp2] [--backend gloo|nccl]
                                 [--ranks 2] [--no-lines] [--jobs 1] [--plain] [--table] [--package DIR] [--python PY]
                                 [--json FILE] [--keep DIR]

Each run is a small script of its own, with one mistake of 16 kinds, in a drawn step from 1 to 60, on a drawn rank. The script trains 3 to 8
steps more. Sizes, model (MLP or transformer) and optimiser (AdamW or SGD with momentum) are drawn as well. What `nsa-harness run --json`
answers is compared with the table CELLS below, which says for each kind and wrapper what can be told:

    found   "yes"     it can be seen: the run must not be GO, and the first initiating finding must have one of the codes.
            "cannot"  nothing on record shows it. GO is right. A finding is only right if it has one of the codes.
    codes   the codes that are right, as first initiating finding
    steps   which step is right, counted from the step of the mistake. (0, 1): it was written after the optimiser step of step k, so what
            shows it first is the state after step k, or the forward of step k + 1. (): no step is promised.
    rank    "yes"       the rank can be named
            "majority"  the rank can be named where there are three ranks or more: two ranks only differ
            "no"        there is no such rank (all ranks do it), or it cannot be known
    ends    how the script ends without nsa-harness: "well" with exit code 0, "badly" with an error, because the ranks are out of step

With FSDP2 each rank holds pieces that no other rank holds. A wrong piece has nothing that it could be compared with. So what can be told
there is what counts, collectives, batches and numbers that are not finite tell. A script of FSDP2 runs without replication.

`--only WORD` keeps the kinds whose name holds WORD. `--no-lines` leaves the two lines out and adds `--watch` to the command. `--plain` runs
the scripts without NSA_HARNESS and looks at their exit codes only. `--table` prints the table. PY (default: this Python) must have torch.
DIR (default: `python` of this tree) is where `import nsa_harness` is found. `--keep DIR` keeps the script and answer of each run.

Prints what was wrong and the totals. Exit 0: no false GO, and found >= 98 %, right step >= 95 %, right rank >= 95 % of what the table
promises."""

import argparse
import collections
import concurrent.futures
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SECONDS = 180  # one run, at most
GOALS = {"found": 0.98, "right step": 0.95, "right rank": 0.95}
EXACT = ("no false GO", "ends as the table says")

# What is wrong: kind, number in the list of kinds, variant, what it is.
MISTAKES = (
    (1, "nan_weight.one", "one rank writes NaN into an element of a weight after its optimiser step"),
    (1, "nan_weight.all", "all ranks do"),
    (2, "weights.one", "one rank changes one element of a weight after its optimiser step"),
    (2, "weights.every", "one rank scales all trained weights after its optimiser step"),
    (3, "skip_step", "one rank leaves optimizer.step() out"),
    (4, "no_sync.one", "one rank does not reduce in one step"),
    (4, "no_sync.all", "no rank reduces in one step"),
    (5, "gradient.doubled", "one rank doubles its reduced gradients before the optimiser step"),
    (5, "gradient.clipped", "one rank clips its reduced gradients, the others do not"),
    (6, "buffer", "one rank changes a buffer, and buffers are not broadcast"),
    (7, "frozen", "one rank changes a frozen weight"),
    (8, "checkpoint", "one rank loads other weights"),
    (9, "unreached.uncalled", "the optimiser holds a layer that no forward calls"),
    (9, "unreached.detached", "the optimiser holds a layer whose output is detached"),
    (10, "stale_optimizer", "the optimiser holds the weights of a model that was made anew, or sharded, after it"),
    (11, "rate", "one rank has another learning rate from this step on"),
    (12, "not_finite.gradient", "all ranks: the loss is finite, and its gradient is infinite"),
    (12, "not_finite.loss", "all ranks: the loss is NaN"),
    (12, "not_finite.loss_one", "one rank: the loss is NaN"),
    (13, "extra.synced", "one rank does one forward and backward more before the others' one, with its reduction"),
    (13, "extra.after", "one rank does one forward and backward more after the reduction, under no_sync"),
    (13, "extra.before", "one rank does one micro-batch more before the reduction, under no_sync"),
    (14, "same_batch", "all ranks read the batch of rank 0 from this step on"),
    (15, "moments", "one rank's moments are changed after its optimiser step"),
    (16, "rounded", "one rank's weights are rounded to bfloat16 after its optimiser step"),
)

Cell = collections.namedtuple("Cell", "found codes steps rank ends")
NAN = ("NAN.ORIGIN",)
STATE = ("STATE.DIVERGED",)
DESYNC = ("DESYNC.MISSING_RANK", "DESYNC.ORDER", "DESYNC.OP", "DESYNC.SIZE")
NOT_REDUCED = ("GRAD.NOT_REDUCED",)
AFTER = (0, 1)  # written after the optimiser step
PIECE = Cell("cannot", (), AFTER, "no", "well")  # a piece that one rank alone holds
CELLS = {
    ("nan_weight.one", "ddp"): Cell("yes", NAN + STATE, AFTER, "yes", "well"),
    ("nan_weight.one", "fsdp2"): Cell("yes", NAN, AFTER, "yes", "well"),
    ("nan_weight.all", "ddp"): Cell("yes", NAN, AFTER, "no", "well"),
    ("nan_weight.all", "fsdp2"): Cell("yes", NAN, AFTER, "no", "well"),
    ("weights.one", "ddp"): Cell("yes", STATE, AFTER, "majority", "well"),
    ("weights.one", "fsdp2"): PIECE,
    ("weights.every", "ddp"): Cell("yes", STATE, AFTER, "majority", "well"),
    ("weights.every", "fsdp2"): PIECE,
    ("skip_step", "ddp"): Cell("yes", ("OPT.SKIPPED",) + STATE, (0,), "yes", "well"),
    ("skip_step", "fsdp2"): Cell("yes", ("OPT.SKIPPED",), (0,), "yes", "well"),
    ("no_sync.one", "ddp"): Cell("yes", NOT_REDUCED + DESYNC, AFTER, "yes", "badly"),
    ("no_sync.one", "fsdp2"): Cell("yes", NOT_REDUCED + DESYNC, AFTER, "yes", "badly"),
    ("no_sync.all", "ddp"): Cell("yes", NOT_REDUCED, (0,), "no", "well"),
    # fully_shard keeps the gradients and reduces them in the next step: it is accumulation, with an optimiser step that does nothing.
    ("no_sync.all", "fsdp2"): Cell("cannot", ("OPT.SKIPPED", "OPT.UPDATE_LOST", "GRAD.MISSING") + NOT_REDUCED, (0,), "no", "well"),
    # A doubled gradient moves AdamW's first update by less than the last place, so step 2 may be the first that shows it.
    ("gradient.doubled", "ddp"): Cell("yes", STATE + ("CLIP.WRONG", "GRAD.SCALE", "OPT.UPDATE_WRONG"), AFTER, "majority", "well"),
    ("gradient.doubled", "fsdp2"): PIECE,
    ("gradient.clipped", "ddp"): Cell("yes", STATE + ("CLIP.WRONG", "GRAD.SCALE", "OPT.UPDATE_WRONG"), AFTER, "majority", "well"),
    ("gradient.clipped", "fsdp2"): PIECE,
    ("buffer", "ddp"): Cell("cannot", STATE, AFTER, "no", "well"),  # without broadcast_buffers a rank may have buffers of its own
    ("buffer", "fsdp2"): Cell("cannot", STATE, AFTER, "no", "well"),
    ("frozen", "ddp"): Cell("yes", STATE, AFTER, "majority", "well"),
    ("frozen", "fsdp2"): PIECE,
    ("checkpoint", "ddp"): Cell("yes", STATE, AFTER, "majority", "well"),
    ("checkpoint", "fsdp2"): Cell("cannot", STATE, AFTER, "no", "well"),
    ("unreached.uncalled", "ddp"): Cell("yes", ("GRAD.MISSING", "OPT.UPDATE_LOST"), (), "no", "well"),
    ("unreached.uncalled", "fsdp2"): Cell("yes", ("GRAD.MISSING", "OPT.UPDATE_LOST"), (), "no", "well"),
    ("unreached.detached", "ddp"): Cell("yes", ("GRAD.MISSING", "OPT.UPDATE_LOST"), (), "no", "well"),
    ("unreached.detached", "fsdp2"): Cell("yes", ("GRAD.MISSING", "OPT.UPDATE_LOST"), (), "no", "well"),
    ("stale_optimizer", "ddp"): Cell("yes", ("OPT.UPDATE_LOST", "OPT.SKIPPED", "OPT.UPDATE_WRONG"), (), "no", "well"),
    ("stale_optimizer", "fsdp2"): Cell("yes", ("OPT.UPDATE_LOST", "OPT.SKIPPED", "OPT.UPDATE_WRONG"), (), "no", "well"),
    ("rate", "ddp"): Cell("yes", STATE + ("SCHEDULE.LR", "OPT.UPDATE_WRONG"), (0,), "majority", "well"),
    ("rate", "fsdp2"): Cell("cannot", ("SCHEDULE.LR",), (0,), "no", "well"),
    ("not_finite.gradient", "ddp"): Cell("yes", NAN, (0,), "no", "well"),
    ("not_finite.gradient", "fsdp2"): Cell("yes", NAN, (0,), "no", "well"),
    ("not_finite.loss", "ddp"): Cell("yes", NAN, (0,), "no", "well"),
    ("not_finite.loss", "fsdp2"): Cell("yes", NAN, (0,), "no", "well"),
    ("not_finite.loss_one", "ddp"): Cell("yes", NAN, (0,), "yes", "well"),
    ("not_finite.loss_one", "fsdp2"): Cell("yes", NAN, (0,), "yes", "well"),
    ("extra.synced", "ddp"): Cell("yes", DESYNC + ("COMM.EXTRA",) + NOT_REDUCED, AFTER, "yes", "badly"),
    ("extra.synced", "fsdp2"): Cell("yes", DESYNC + ("COMM.EXTRA",) + NOT_REDUCED, AFTER, "yes", "badly"),
    ("extra.after", "ddp"): Cell("yes", NOT_REDUCED + STATE, (0,), "majority", "well"),
    # Ranks may have different numbers of micro-batches: the reduced gradients are the same.
    ("extra.before", "ddp"): Cell("cannot", ("GRAD.SCALE", "COMM.EXTRA"), (0,), "no", "well"),
    ("same_batch", "ddp"): Cell("yes", ("DATA.DUPLICATE",), (0,), "no", "well"),
    ("same_batch", "fsdp2"): Cell("yes", ("DATA.DUPLICATE",), (0,), "no", "well"),
    ("moments", "ddp"): Cell("yes", STATE + ("OPT.UPDATE_WRONG",), AFTER, "majority", "well"),
    ("moments", "fsdp2"): PIECE,
    ("rounded", "ddp"): Cell("yes", STATE, AFTER, "majority", "well"),
    ("rounded", "fsdp2"): PIECE,
}

# A forward more would broadcast the buffers once more on this rank alone, which is another mistake.
NOT_BROADCAST = ("buffer", "extra.after", "extra.before")
# How a mistake is made: place in the script -> lines. `here`: this is the step. `mine`: and this rank is the one.
EVERY_WEIGHT = "for p in trained(model):\n"
PLANTS = {
    "nan_weight.one": {"after_step": "if mine:\n    piece(chosen(model)).view(-1)[0] = math.nan"},
    "nan_weight.all": {"after_step": "if here:\n    piece(chosen(model)).view(-1)[0] = math.nan"},
    "weights.one": {"after_step": "if mine:\n    piece(chosen(model)).view(-1)[0] += 1e-3"},
    "weights.every": {"after_step": "if mine:\n    " + EVERY_WEIGHT + "        piece(p).mul_(1.001)"},
    "skip_step": {"step": "if not mine:\n    optimizer.step()"},
    "no_sync.one": {"synced": "not mine"},
    "no_sync.all": {"synced": "not here"},
    "gradient.doubled": {"after_backward": "if mine:\n    " + EVERY_WEIGHT + "        piece(p.grad).mul_(2)"},
    "gradient.clipped": {"after_backward": "if mine:\n    nn.utils.clip_grad_norm_(shown(model), 1e-3)"},
    "buffer": {"after_step": "if mine:\n    inner(model).scale.add_(0.01)"},
    "frozen": {"after_step": "if mine:\n    piece(inner(model).front.weight).add_(0.01)"},
    "checkpoint": {"after_step": "if mine:\n    load_other(model)"},
    "unreached.uncalled": {"spare": "uncalled"},
    "unreached.detached": {"spare": "detached"},
    "stale_optimizer": {"stale": "yes"},
    "rate": {"step": "if rank == WHO and step >= AT:\n    for group in optimizer.param_groups:\n        group['lr'] = 1.5 * LR\noptimizer.step()"},
    "not_finite.gradient": {"before_forward": "inner(model).steep = here"},
    "not_finite.loss": {"loss": "if here:\n    loss = loss * math.nan"},
    "not_finite.loss_one": {"loss": "if mine:\n    loss = loss * math.nan"},
    "extra.synced": {"after_zero": "if mine:\n    loss_of(model, *batch(1000 + step, rank)).backward()"},
    "extra.after": {"after_backward": "if mine:\n    with synchronised(model, False):\n        loss_of(model, *batch(1000 + step, rank)).backward()"},
    "extra.before": {
        "after_zero": "if mine:\n    with synchronised(model, False):\n        loss_of(model, *batch(1000 + step, rank)).backward()"
    },
    "same_batch": {"reader": "rank if step < AT else 0"},
    "moments": {"after_step": "if mine:\n    for state in optimizer.state.values():\n        for name in ('exp_avg', 'momentum_buffer'):\n"
                "            if name in state:\n                piece(state[name]).mul_(1.5)"},
    "rounded": {"after_step": "if mine:\n    " + EVERY_WEIGHT + "        piece(p).copy_(piece(p).bfloat16())"},
}

SCRIPT = '''# {title}
import contextlib
import datetime
import math
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
{import_line}
BACKEND, WRAPPER, SPARE, STALE = {backend!r}, {wrapper!r}, {spare!r}, {stale!r}
AT, WHO, STEPS, SEED = {at}, {who}, {steps}, {model_seed}
WIDTH, HIDDEN, LAYERS, OUT, BATCH, LENGTH = {width}, {hidden}, {layers}, {out}, {batch}, {length}
MODEL, OPTIMIZER, LR, CHOSEN, BROADCAST = {model!r}, {optimizer!r}, {lr}, {chosen}, {broadcast}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(WIDTH))
        self.front = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        if MODEL == "transformer":
            self.body = nn.ModuleList(nn.TransformerEncoderLayer(WIDTH, 2, HIDDEN, dropout=0.0, batch_first=True) for _ in range(LAYERS))
        else:
            self.body = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, WIDTH)) for _ in range(LAYERS))
        if SPARE:
            self.spare = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, OUT)
        self.steep = False

    def forward(self, x):
        h = self.front(x) * self.scale
        for layer in self.body:
            h = layer(h) if MODEL == "transformer" else h + layer(h)
        if SPARE == "detached":
            h = h + self.spare(h).detach()
        if self.steep:
            h = h + (h - h.detach()) * 1e30 * 1e30  # adds 0, and its gradient is infinite
        return self.head(h)


def wrapped(net):
    if WRAPPER == "ddp":
        return DistributedDataParallel(net, broadcast_buffers=BROADCAST, find_unused_parameters=bool(SPARE))
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    for layer in net.body:
        fully_shard(layer, mesh=mesh)
    return fully_shard(net, mesh=mesh)


def inner(model):
    return model.module if WRAPPER == "ddp" else model


def piece(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def trained(model):
    return [p for p in model.parameters() if p.requires_grad]


def chosen(model):
    parameters = [p for p in inner(model).body.parameters()]
    return parameters[CHOSEN % len(parameters)]


def shown(model):
    """Parameters whose gradients are this rank's own pieces."""
    parts = []
    for p in trained(model):
        part = nn.Parameter(piece(p).detach())
        part.grad = piece(p.grad)
        parts.append(part)
    return parts


def load_other(model):
    torch.manual_seed(SEED + 1)
    if WRAPPER == "ddp":
        model.module.load_state_dict(Net().to(device).state_dict())
    else:
        for p in model.parameters():
            piece(p).copy_(torch.randn(piece(p).shape) * 0.1)


@contextlib.contextmanager
def synchronised(model, yes):
    if yes:
        yield
    elif WRAPPER == "ddp":
        with model.no_sync():
            yield
    else:
        model.set_requires_gradient_sync(False)
        yield
        model.set_requires_gradient_sync(True)


def batch(step, reader):
    drawn = torch.Generator().manual_seed(SEED * 7919 + step * 64 + reader)
    shape = (BATCH, LENGTH, WIDTH) if MODEL == "transformer" else (BATCH, WIDTH)
    x = torch.randn(shape, generator=drawn)
    return x.to(device), torch.sin(x[..., :OUT] * 2).to(device)


def loss_of(model, x, y):
    return nn.functional.mse_loss(model(x), y)


local = int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", local) if BACKEND == "nccl" else torch.device("cpu")
if BACKEND == "nccl":
    torch.cuda.set_device(device)
dist.init_process_group(BACKEND, timeout=datetime.timedelta(seconds=60))
rank = dist.get_rank()
torch.manual_seed(SEED)
net = Net().to(device)
held = trained(net)
if STALE and WRAPPER == "ddp":
    net = Net().to(device)
model = wrapped(net)
if not STALE:
    held = trained(model)
optimizer = torch.optim.AdamW(held, lr=LR) if OPTIMIZER == "adamw" else torch.optim.SGD(held, lr=LR, momentum=0.9)
{watch_line}
for step in range(1, STEPS + 1):
    here = step == AT
    mine = here and rank == WHO
    x, y = batch(step, {reader})
{before_forward}
    optimizer.zero_grad()
{after_zero}
    with synchronised(model, {synced}):
        loss = loss_of(model, x, y)
{loss}
        loss.backward()
    with torch.no_grad():
        pass
{after_backward}
{step}
    with torch.no_grad():
        pass
{after_step}
print(f"rank {{rank}} did {{STEPS}} steps, loss {{loss.item():.6g}}", flush=True)
time.sleep(0.5)
dist.destroy_process_group()
'''


def indented(text, spaces):
    return "\n".join(" " * spaces + line for line in text.split("\n")) if text else ""


Run = collections.namedtuple("Run", "index mistake wrapper at who draw")
Seen = collections.namedtuple("Seen", "exit outcome code step ranks sentence reason seconds")


def drawn(options, index, mistake, wrapper):
    draw = random.Random(f"{options.seed} {index} {mistake} {wrapper}")
    at = draw.randint(1, 60)
    adamw = draw.random() < 0.6
    sizes = {
        "steps": at + draw.randint(3, 8),
        "model_seed": draw.randrange(10**6),
        "model": draw.choice(("mlp", "mlp", "transformer")),
        "width": draw.choice((8, 12, 16)),
        "hidden": draw.choice((16, 24, 32)),
        "layers": draw.randint(1, 3),
        "out": draw.choice((2, 4, 6)),
        "batch": draw.randint(4, 16),
        "length": draw.randint(3, 6),
        "optimizer": "adamw" if adamw else "sgd",
        "lr": draw.choice((1e-3, 3e-3)) if adamw else draw.choice((0.01, 0.03)),
        "chosen": draw.randrange(100),
        "broadcast": draw.random() < 0.5 and mistake not in NOT_BROADCAST,
    }
    return Run(index, mistake, wrapper, at, draw.randrange(options.ranks), sizes)


def script_of(run, options):
    plants = PLANTS[run.mistake]
    says = next(says for _, mistake, says in MISTAKES if mistake == run.mistake)
    lines = not options.no_lines and not options.plain
    places = {place: indented(plants.get(place, ""), spaces) for place, spaces in (("before_forward", 4), ("after_zero", 4), ("loss", 8))}
    places |= {place: indented(plants.get(place, "pass"), 8) for place in ("after_backward", "after_step")}
    places["step"] = indented(plants.get("step", "optimizer.step()"), 4)
    text = SCRIPT.format(
        title=f"{run.mistake}: {says}. Step {run.at}, rank {run.who}.",
        import_line="import nsa_harness\n" if lines else "",
        watch_line="nsa_harness.train.watch(model, optimizer)" if lines else "",
        backend=options.backend,
        wrapper=run.wrapper,
        spare=plants.get("spare", ""),
        stale=plants.get("stale", ""),
        at=run.at,
        who=run.who,
        reader=plants.get("reader", "rank"),
        synced=plants.get("synced", "True"),
        **places,
        **run.draw,
    )
    quiet = "    with torch.no_grad():\n        pass\n"  # stands before each place of the script that may be empty
    text = text.replace(quiet + "        pass\n", "").replace(quiet, quiet.split("\n", maxsplit=1)[0] + "\n")
    if run.mistake.startswith("extra.after"):
        text = text.replace("    with torch.no_grad():\n        if mine", "    with torch.enable_grad():\n        if mine")
    return re.sub(r"\n\n(?=    )", "\n", text)


def numbers(value):
    """A site names a step or ranks as a number, a list or text such as "0-1"."""
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, (int, float)):
        return [int(value)]
    if isinstance(value, list):
        return [number for part in value for number in numbers(part)]
    found = []
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", str(value)):
        found += range(int(first), int(last or first) + 1)
    return found


def seen_in(answer, code, seconds):
    (case,) = answer["cases"]
    findings = case["findings"]
    told = next((f for f in findings if f["role"] == "initiating"), findings[0] if findings else None)
    if told is None:
        return Seen(code, case["outcome"], None, None, [], "", case["reason"], seconds)
    site = told["site"]
    steps = numbers(site.get("step", site.get("steps", site.get("update"))))
    ranks = numbers(site.get("rank", site.get("ranks")))
    sentence = re.split(r"(?<=[.!?])\s", told["statement"])[0]
    return Seen(code, case["outcome"], told["code"], steps[0] if steps else None, ranks, sentence, case["reason"], seconds)


def execute(run, options):
    launch = [options.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(options.ranks)]
    folder = tempfile.mkdtemp(prefix="every_step.")
    began = time.monotonic()
    try:
        script = os.path.join(folder, "train.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(script_of(run, options))
        path = os.pathsep.join(part for part in (options.package, os.environ.get("PYTHONPATH")) if part)
        environment = dict(os.environ, PYTHONPATH=path, OMP_NUM_THREADS="1")
        words = [*launch, script]
        if not options.plain:
            words = [os.path.abspath(options.program), "run", "--quiet", "--json", "--budget", str(SECONDS), "--out", folder]
            words += ["--db", os.path.join(folder, "runs.db"), *(["--watch"] if options.no_lines else []), "--", *launch, script]
        done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=2 * SECONDS)
        seconds = time.monotonic() - began
        if options.keep:
            place = os.path.join(options.keep, f"{run.index:03}.{run.mistake}.{run.wrapper}")
            os.makedirs(place, exist_ok=True)
            shutil.copy(script, place)
            for name, text in (("stdout", done.stdout), ("stderr", done.stderr)):
                with open(os.path.join(place, name), "w", encoding="utf-8") as file:
                    file.write(text)
        if options.plain:
            return Seen(done.returncode, "", None, None, [], "", done.stderr[-600:], seconds)
        try:
            return seen_in(json.loads(done.stdout), done.returncode, seconds)
        except (ValueError, KeyError) as error:
            return Seen(done.returncode, "NO ANSWER", None, None, [], "", f"{error!r}: {done.stdout[-200:]} {done.stderr[-400:]}", seconds)
    except subprocess.TimeoutExpired:
        return Seen(None, "NO END", None, None, [], "", "it did not end", time.monotonic() - began)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def marks_of(run, cell, seen, options):
    """What is promised and what was kept: name -> True, False. What is not promised is absent."""
    accused = seen.outcome not in ("PASS", "INCONCLUSIVE", "SKIP", "NO ANSWER", "ERROR")
    right_code = accused and seen.code in cell.codes
    marks = {}
    if cell.found == "cannot":
        marks["no untrue finding"] = not accused or right_code
        return marks
    marks["no false GO"] = seen.exit != 0 and seen.outcome != "PASS"
    marks["found"] = right_code
    if accused:
        marks["right code"] = right_code
    if cell.steps:
        marks["right step"] = right_code and seen.step is not None and seen.step - run.at in cell.steps
    if cell.rank == "yes" or (cell.rank == "majority" and options.ranks > 2):
        marks["right rank"] = right_code and seen.ranks == [run.who]
    elif cell.rank == "majority" and right_code and len(seen.ranks) == 1:
        marks["names no wrong rank"] = seen.ranks == [run.who]
    return marks


def plain_mark(cell, seen):
    return {"ends as the table says": seen.exit is not None and (seen.exit == 0) == (cell.ends == "well")}


def print_table():
    for number, mistake, says in MISTAKES:
        print(f"{number:2} {mistake}: {says}")
        for wrapper in ("ddp", "fsdp2"):
            cell = CELLS.get((mistake, wrapper))
            if cell is None:
                print(f"     {wrapper:5} not tried")
                continue
            steps = ", ".join(f"k + {s}" if s else "k" for s in cell.steps) or "not promised"
            codes = ", ".join(cell.codes) or "none"
            print(f"     {wrapper:5} found: {cell.found}; codes: {codes}; step: {steps}; rank: {cell.rank}; ends {cell.ends}")


def planned(options):
    """Each kind and wrapper equally often, its variants in turn."""
    places = collections.defaultdict(list)
    for number, mistake, _ in MISTAKES:
        for wrapper in ("ddp", "fsdp2"):
            if (mistake, wrapper) in CELLS and options.only in mistake and options.wrapper in (None, wrapper):
                places[number, wrapper].append(mistake)
    order = sorted(places)
    runs = []
    for index in range(options.runs if order else 0):
        number, wrapper = order[index % len(order)]
        variants = places[number, wrapper]
        runs.append(drawn(options, index, variants[index // len(order) % len(variants)], wrapper))
    return runs


def described(run, seen):
    place = f"{run.mistake:20} {run.wrapper:5} step {run.at:2} rank {run.who}"
    if seen.code is None:
        return f"{place}: {seen.outcome} exit {seen.exit}: {seen.reason[:240]}"
    return f"{place}: {seen.outcome} {seen.code} @ step {seen.step}, ranks {seen.ranks}: {seen.sentence[:240]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?")
    parser.add_argument("--runs", type=int, default=128)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--wrapper", choices=("ddp", "fsdp2"))
    parser.add_argument("--backend", choices=("gloo", "nccl"), default="gloo")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--no-lines", action="store_true")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--package", default=os.path.join(ROOT, "python"))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--keep")
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.table:
        return print_table()
    if not options.program and not options.plain:
        parser.error("NSA_HARNESS is missing")
    totals, rows, wrong, goes = collections.defaultdict(list), [], [], collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runs = planned(options)
        for run, seen in zip(runs, pool.map(lambda run: execute(run, options), runs)):
            cell = CELLS[run.mistake, run.wrapper]
            marks = plain_mark(cell, seen) if options.plain else marks_of(run, cell, seen, options)
            for name, kept in marks.items():
                totals[name].append(kept)
            line = described(run, seen)
            goes[cell.found, seen.outcome] += 1
            if not all(marks.values()):
                wrong.append((", ".join(name for name, kept in marks.items() if not kept), line))
            rows.append(run._asdict() | {"seen": seen._asdict(), "marks": marks})
            print("right" if all(marks.values()) else "WRONG", f"{seen.seconds:5.0f} s", line, flush=True)
            if options.json:
                with open(options.json, "w", encoding="utf-8") as file:
                    json.dump(rows, file, indent=1)
    print(f"\n{len(wrong)} of {len(runs)} are wrong")
    for what, line in wrong:
        print(f"  not kept: {what}\n    {line}")
    print("\nhow they ended, by what the table promises:")
    for (found, outcome), count in sorted(goes.items()):
        print(f"  {found:6} {outcome or 'without nsa-harness'}: {count}")
    print()
    good = True
    for name, kept in totals.items():
        goal = GOALS.get(name, 1.0 if name in EXACT else None)
        share = sum(kept) / len(kept)
        good = good and (goal is None or share >= goal)
        print(f"{name:24} {sum(kept):4} of {len(kept):4} {100 * share:6.1f} %" + ("" if goal is None else f"   goal {100 * goal:.0f} %"))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
