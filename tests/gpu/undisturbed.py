#!/usr/bin/env python3
"""On a card: a training gives the same losses, to the last bit, with the two lines under `nsa-harness run` and without.
    tests/gpu/undisturbed.py NSA_HARNESS OUT [NAME...]
CUDA graphs are captured while the thread of the heartbeats asks for events a hundred times a second. Needs one card; with two also
DistributedDataParallel and fully_shard over NCCL. Writes OUT/undisturbed.json. Exit 1: one of them differs."""

import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

START = """
import os, sys
import torch, torch.distributed as dist
try:
    import nsa_harness
    from nsa_harness import socket_channel
    socket_channel.HEARTBEAT_S = 0.01
except ImportError:
    nsa_harness = None
if "RANK" in os.environ:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
rank = dist.get_rank() if dist.is_initialized() else 0
torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
device = torch.device("cuda", torch.cuda.current_device())
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256)).to(device)
MODEL
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)
if nsa_harness:
    nsa_harness.train.watch(model, optimizer, every=EVERY)
torch.manual_seed(1 + rank)
def tell(step, loss):
    os.write(1, f"rank {rank} step {step} {float(loss)!r}\\n".encode())
"""
END = """
torch.cuda.synchronize()
for name, param in model.named_parameters():
    whole = param.to_local() if hasattr(param, "to_local") else param
    os.write(1, f"rank {rank} step {name} {whole.double().sum().item()!r}\\n".encode())
if dist.is_initialized():
    dist.destroy_process_group()
"""
PLAIN = """
for step in range(1, 41):
    x = torch.randn(64, 256, device=device)
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    tell(step, loss)
"""
SCALED = """
scaler = torch.amp.GradScaler("cuda", init_scale=2.0**40)
for step in range(1, 41):
    x = torch.randn(64, 256, device=device)
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(x).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    tell(step, loss)
"""
# As the documentation of torch.cuda.graph has it: some steps aside, then one step is captured and repeated.
GRAPH = """
x = torch.randn(64, 256, device=device)
aside = torch.cuda.Stream()
aside.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(aside):
    for step in range(1, 4):
        optimizer.zero_grad(set_to_none=True)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        tell(step, loss)
torch.cuda.current_stream().wait_stream(aside)
for round in range(5):
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        for _ in range(20):
            loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
    for step in range(10):
        x.copy_(torch.randn(64, 256, device=device))
        graph.replay()
        tell(f"{round}.{step}", loss)
"""
HALF = "model = torch.nn.parallel.DistributedDataParallel(model.to(torch.TYPE))"
TINY = PLAIN.replace(".mean()\n", ".mean() * 1e-3\n")  # gradients that are subnormal numbers in float16
DDP = "model = torch.nn.parallel.DistributedDataParallel(model)"
SHARDED = """
from torch.distributed.fsdp import fully_shard
for module in (model[0], model[2], model):
    fully_shard(module)
"""
# name: (ranks, what is done with the model, the loop, outcome with every step recorded)
TABLE = {
    "plain": (1, "", PLAIN, "PASS"),
    "scaled": (1, "", SCALED, "PASS"),
    "graph": (1, "", GRAPH, "INCONCLUSIVE"),
    "distributed": (2, DDP, PLAIN, "PASS"),
    "distributed_scaled": (2, DDP, SCALED, "PASS"),
    "distributed_bfloat16": (2, HALF.replace("TYPE", "bfloat16"), PLAIN, "PASS"),
    "distributed_float16": (2, HALF.replace("TYPE", "float16"), TINY, "PASS"),
    "sharded": (2, SHARDED, PLAIN, "PASS"),
}


def script_of(name, model, loop):
    if "float" in name:  # AdamW divides by zero in float16
        start = START.replace("AdamW(model.parameters(), lr=1e-3, capturable=True)", "SGD(model.parameters(), lr=1.0)")
        return (start + loop.replace("device=device", f"device=device, dtype=torch.{name.split('_')[1]}") + END).replace("MODEL", model)
    return (START + loop + END).replace("MODEL", model)


def lines(text):
    return sorted(re.findall(r"^rank \d+ step \S+ \S+$", text, re.M))


def environment(with_lines):
    variables = dict(os.environ, CUBLAS_WORKSPACE_CONFIG=":4096:8", OMP_NUM_THREADS="1")
    variables.pop("PYTHONPATH", None)
    if with_lines:
        variables["PYTHONPATH"] = os.path.join(ROOT, "python")
    return variables


def tried(program, out, name, every):
    ranks, model, loop, outcome = TABLE[name]
    path = os.path.join(out, name + ".py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(script_of(name, model, loop).replace("EVERY", str(every)))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*(launcher if ranks == 2 else [sys.executable]), path]
    alone = subprocess.run(command, env=environment(False), capture_output=True, text=True, check=False, timeout=120)
    options = ["--json", "--out", os.path.join(out, "runs"), "--db", os.path.join(out, "runs.db")]
    run = [program, "run", *options, "--", *command]
    watched = subprocess.run(run, env=environment(True), capture_output=True, text=True, check=False, timeout=180)
    try:
        (case,) = json.loads(watched.stdout)["cases"]
    except ValueError:
        case = {"outcome": "", "reason": watched.stderr[-2000:], "findings": []}
    same = lines(alone.stdout) == lines(watched.stderr) and bool(lines(alone.stdout))
    return {
        "name": name,
        "every": every,
        "same": same,
        "alone_exit": alone.returncode,
        "outcome": case["outcome"],
        "right": same and alone.returncode == 0 and not case["findings"] and (every != 1 or case["outcome"] == outcome),
        "reason": case["reason"],
        "differs": "" if same else [alone.stdout[-500:], alone.stderr[-500:], watched.stderr[-1500:]],
    }


def main():
    program, out, *asked = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    import torch

    names = [name for name in asked or TABLE if TABLE[name][0] <= torch.cuda.device_count()]
    results = [tried(program, out, name, every) for name in names for every in (1, 100)]
    with open(os.path.join(out, "undisturbed.json"), "w", encoding="utf-8") as file:
        json.dump({"card": torch.cuda.get_device_name(), "torch": torch.__version__, "results": results}, file, indent=1)
    for result in results:
        print(result["name"], result["every"], "right" if result["right"] else "WRONG", result["outcome"], result["reason"][:300])
        if not result["right"]:
            print(result["differs"])
    os.remove(os.path.join(out, "runs.db"))
    return 0 if all(result["right"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
