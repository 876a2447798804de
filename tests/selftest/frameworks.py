#!/usr/bin/env python3
"""Trainings inside of a framework, with no line of ours, under `nsa-harness run --watch`.
    tests/selftest/frameworks.py NSA_HARNESS [--python PY] [--only ddp,trainer] [--mistakes none,nan,part] [--steps 30] [--json FILE]
Two Gloo ranks train 30 steps: healthy; with a NaN that is written into a weight on rank 1 after step 22; with a weight that is changed on
rank 1 after step 13. Each also runs alone. Prints for each what was said, and whether it is right: losses and weights to the last bit as
alone; healthy is GO, or INCONCLUSIVE for a reason that the table allows; a mistake is named with its step. Exit 1: something is wrong.
PY (default: this Python) must have torch; what it does not have of the others is skipped and said."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

NAN_STEP, PART_STEP = 23, 14

# Each script has `model`, calls mistake(step, model) before each step, and at the end told(model).
HEAD = """
import hashlib, os, sys
import torch
import torch.distributed as dist
torch.set_num_threads(1)
RANK, MISTAKE, STEPS = int(os.environ["RANK"]), os.environ["MISTAKE"], int(os.environ["STEPS"])
LOSSES = []

def local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor

def mistake(step, model):
    if RANK != 1 or (MISTAKE, step) not in (("nan", 23), ("part", 14)):
        return
    with torch.no_grad():
        values = local(next(param for param in model.parameters() if param.requires_grad and param.numel() and local(param).numel()))
        values.view(-1)[0] = float("nan") if MISTAKE == "nan" else values.view(-1)[0] + 0.01

def told(model):
    digest = hashlib.sha256()
    for name, param in model.named_parameters():
        digest.update(local(param.detach()).contiguous().view(torch.uint8).numpy().tobytes() if HAS_NUMPY else str(local(param.detach()).tolist()).encode())
    os.write(1, f"s> rank {RANK} {digest.hexdigest()} {[loss.hex() for loss in LOSSES]}\\n".encode())

try:
    import numpy
    HAS_NUMPY = True
except ImportError:
    HAS_NUMPY = False

torch.manual_seed(0)
"""
MODEL = """
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
"""
LOOP = """
data = torch.Generator().manual_seed(DATA_SEED)
for step in range(1, STEPS + 1):
    x, y = torch.randn(8, 16, generator=data), torch.randint(0, 4, (8,), generator=data)
    mistake(step, model)
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    BACKWARD
    optimizer.step()
    LOSSES.append(loss.item())
told(model)
if dist.is_initialized():
    dist.destroy_process_group()
"""
INIT = 'dist.init_process_group("gloo")\n'
DDP = "model = torch.nn.parallel.DistributedDataParallel(model)\n"
ADAMW = "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)\n"


def loop(*parts, backward="loss.backward()", seed="RANK"):
    return HEAD + "".join(parts) + LOOP.replace("BACKWARD", backward).replace("DATA_SEED", seed)


FULLY_SHARD = """
from torch.distributed.fsdp import fully_shard
for module in (model[0], model[2], model[4], model):
    fully_shard(module)
"""
FSDP1 = """
from torch.distributed.fsdp import FullyShardedDataParallel
model = FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True)
"""
TENSOR_PARALLEL = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
model = parallelize_module(model, init_device_mesh("cpu", (2,)), {"0": ColwiseParallel(), "2": RowwiseParallel()})
"""
ACCELERATE = """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
"""
TRAINER = HEAD + """
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, index):
        ids = torch.randint(0, 64, (12,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": ids, "labels": ids}

class Watcher(TrainerCallback):
    def on_step_begin(self, arguments, state, control, model=None, **_):
        mistake(state.global_step + 1, model)
    def on_log(self, arguments, state, control, logs=None, **_):
        LOSSES.append(float(logs.get("loss", 0.0)))

model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0))
arguments = TrainingArguments(
    output_dir=sys.argv[1], max_steps=STEPS, per_device_train_batch_size=4, use_cpu=True, ddp_backend="gloo", report_to=[],
    save_strategy="no", logging_steps=1, disable_tqdm=True, seed=1, MORE)
trainer = Trainer(model=model, args=arguments, train_dataset=Texts(), callbacks=[Watcher()])
trainer.train()
told(model)
dist.destroy_process_group()
"""
LIGHTNING = HEAD + """
import lightning

class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
    def forward(self, x):
        return self.net(x)
    def training_step(self, batch, index):
        loss = torch.nn.functional.cross_entropy(self(batch[0]), batch[1])
        LOSSES.append(loss.item())
        return loss
    def validation_step(self, batch, index):
        self(batch[0])
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)
    def on_train_batch_start(self, batch, index):
        mistake(self.global_step + 1, self)

data = torch.utils.data.TensorDataset(torch.randn(480, 16), torch.randint(0, 4, (480,)))
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
net = Net()
trainer = lightning.Trainer(
    max_steps=STEPS, accelerator="cpu", devices=2, strategy="ddp", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, default_root_dir=sys.argv[1])
trainer.fit(net, loader, torch.utils.data.DataLoader(data, batch_size=8))
told(net)
"""
# No training of the real package: a stand-in with its names. The module that a script calls is its own, and reduces by itself.
STAND_IN = HEAD + INIT + MODEL + """
class Engine(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module
    def forward(self, x):
        return self.module(x)
    def reduce(self):
        for param in self.module.parameters():
            dist.all_reduce(param.grad)
Engine.__module__, Engine.__qualname__, Engine.__name__ = "MODULE", "NAME", "NAME"
model = Engine(model)
""" + ADAMW + LOOP.replace("BACKWARD", "loss.backward(); model.reduce()").replace("DATA_SEED", "RANK")
DEEPSPEED = HEAD + MODEL + """
import deepspeed
deepspeed.init_distributed("gloo")
engine, optimizer, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
    "train_micro_batch_size_per_gpu": 8, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
    "zero_optimization": {"stage": ZERO}, "steps_per_print": 1000})
data = torch.Generator().manual_seed(RANK)
for step in range(1, STEPS + 1):
    x, y = torch.randn(8, 16, generator=data), torch.randint(0, 4, (8,), generator=data)
    mistake(step, model)
    loss = torch.nn.functional.cross_entropy(engine(x), y)
    engine.backward(loss)
    engine.step()
    LOSSES.append(loss.item())
told(model)
dist.destroy_process_group()
"""
NO_NAN, NO_PART = {"nan"}, {"part"}

# name: script, package that it needs, words of a healthy INCONCLUSIVE ("": it must be GO), mistakes that cannot be told
TABLE = {
    "ddp": (loop(INIT, MODEL, DDP, ADAMW), "", "", set()),
    "ddp_after_optimizer": (loop(INIT, MODEL, ADAMW, DDP), "", "", set()),
    "compile_around": (loop(INIT, MODEL, DDP, ADAMW, "model = torch.compile(model)\n"), "", "", set()),
    "compile_inside": (loop(INIT, MODEL, "model = torch.compile(model)\n", DDP, ADAMW), "", "", set()),
    "compile_in_place": (loop(INIT, MODEL, DDP, "model.compile()\n", ADAMW), "", "", set()),
    "fsdp2": (loop(INIT, MODEL, FULLY_SHARD, ADAMW), "", "", NO_PART),
    "fsdp1": (loop(INIT, MODEL, FSDP1, ADAMW), "", "FullyShardedDataParallel hides", NO_PART),
    "tensor_parallel": (loop(INIT, MODEL, TENSOR_PARALLEL, ADAMW, seed="0"), "", "DTensors placed as", NO_PART),
    "accelerate": (
        loop(ACCELERATE, MODEL, ADAMW, "model, optimizer = accelerator.prepare(model, optimizer)\n", backward="accelerator.backward(loss)"),
        "accelerate", "", set(),
    ),
    "trainer": (TRAINER.replace("MORE", ""), "transformers", "", set()),
    "trainer_accumulates": (TRAINER.replace("MORE", "gradient_accumulation_steps=2"), "transformers", "", set()),
    "lightning": (LIGHTNING, "lightning", "", set()),
    "deepspeed_zero_0": (DEEPSPEED.replace("ZERO", "0"), "deepspeed", "DeepSpeedEngine of deepspeed", NO_NAN | NO_PART),
    "deepspeed_zero_2": (DEEPSPEED.replace("ZERO", "2"), "deepspeed", "DeepSpeedEngine of deepspeed", NO_NAN | NO_PART),
    "megatron_names": (
        STAND_IN.replace("MODULE", "megatron.core.distributed.distributed_data_parallel").replace("NAME", "DistributedDataParallel"),
        "", "DistributedDataParallel of megatron", NO_NAN | NO_PART,
    ),
    "deepspeed_names": (
        STAND_IN.replace("MODULE", "deepspeed.runtime.engine").replace("NAME", "DeepSpeedEngine"),
        "", "DeepSpeedEngine of deepspeed", NO_NAN | NO_PART,
    ),
}
# mistake: codes of which the first finding must have one, its step
# What is written to a weight before a step belongs to the step before, whose update is done.
WANTED = {"nan": (("NAN.ORIGIN",), NAN_STEP - 1), "part": (("STATE.DIVERGED",), PART_STEP - 1)}


def has(python, package):
    return not package or subprocess.run([python, "-c", f"import {package}"], capture_output=True, check=False).returncode == 0


def run(options, name, mistake, wrapper):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "train_" + name + ".py")  # not named as the package
        with open(path, "w", encoding="utf-8") as file:
            file.write(TABLE[name][0])
        environment = dict(os.environ, OMP_NUM_THREADS="1", MISTAKE=mistake, STEPS=str(options.steps), NSA_HARNESS_TREE=options.tree, HF_HUB_OFFLINE="1", DS_ACCELERATOR="cpu")
        database = os.path.join(folder, "runs.db")
        words = [os.path.abspath(options.program), "run", "--watch", "--json", "--budget", "240", "--db", database, "--"] if wrapper else []
        words += [options.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", path, folder]
        done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
        lines = sorted(re.findall(r"^s> .*$", done.stderr if wrapper else done.stdout, re.M))
        if not wrapper:
            return lines, done.stderr[-2000:]
        try:
            said = json.loads(done.stdout)
            (case,) = said["cases"]
        except ValueError:
            return lines, {"outcome": "none", "reason": done.stderr[-1000:], "findings": []}, ""
        with open(said["report"], encoding="utf-8") as file:
            decision = file.readline().removeprefix("# ").split(":")[0]
        if options.verbose:
            print(done.stderr)
        return lines, case, decision


def right_outcome(name, mistake, case, decision):
    _, _, allowed, untold = TABLE[name]
    if mistake == "none" or mistake in untold:
        return decision == ("INCONCLUSIVE" if allowed else "GO") and allowed in case["reason"]
    codes, step = WANTED[mistake]
    first = case["findings"][0] if case["findings"] else {"code": "", "site": {}}
    return first["code"] in codes and first["site"].get("step") == step


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", default=",".join(TABLE))
    parser.add_argument("--mistakes", default="none,nan,part")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--json")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    options.tree = os.environ.get("NSA_HARNESS_TREE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    rows, wrong = [], 0
    for name in options.only.split(","):
        if not has(options.python, TABLE[name][1]):
            print(f"skipped {name}: this Python has no {TABLE[name][1]}", flush=True)
            continue
        for mistake in options.mistakes.split(","):
            alone, errors = run(options, name, mistake, False)
            lines, case, decision = run(options, name, mistake, True)
            same = lines == alone and len(alone) == 2
            good = same and right_outcome(name, mistake, case, decision)
            wrong += not good
            first = case["findings"][0] if case["findings"] else {"code": "", "site": {}}
            rows.append({"name": name, "mistake": mistake, "right": good, "same": same, "decision": decision, "code": first["code"], "site": first["site"], "reason": case["reason"]})
            what = "the same;" if same else f"NOT the same as alone ({len(alone)} and {len(lines)} lines);"
            print("right" if good else "WRONG", f"{name}, {mistake}:", what, decision, first["code"], case["reason"][:400].replace("\n", " "), flush=True)
            if len(alone) != 2:
                print("  alone:", errors, flush=True)
    print(f"{len(rows) - wrong} of {len(rows)} right")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
