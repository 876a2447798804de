"""The script of docs/your-run.md on two ranks under `nsa-harness run`, with its planted mistake; with --all also healthy, without the
two lines, and with other mistakes. The controller that NSA_HARNESS_PROGRAM names, and this Python's torch."""

import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

PROGRAM = os.environ["NSA_HARNESS_PROGRAM"]
PAGE = os.path.join(ROOT, "docs", "your-run.md")


def has_fully_shard():
    """Of torch; 2.4 has it under another name."""
    import torch.distributed.fsdp

    return hasattr(torch.distributed.fsdp, "fully_shard")


def script_of_the_page():
    with open(PAGE, encoding="utf-8") as file:
        return re.search(r"<!-- tests/python/your_run_test.py runs this -->\n```python\n(.*?)```", file.read(), re.S).group(1)


def judged(name, script, folder, **variables):
    path = os.path.join(folder, name + ".py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(script)
    environment = dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python"), OMP_NUM_THREADS="1", **variables)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", path]
    options = ["--quiet", "--json", "--out", os.path.join(folder, name), "--db", os.path.join(folder, name + ".db")]
    done = subprocess.run([PROGRAM, "run", *options, "--", *launcher], env=environment, capture_output=True, text=True, check=False)
    try:
        (case,) = json.loads(done.stdout)["cases"]
    except ValueError:
        raise AssertionError(f"{name}: exit {done.returncode}: {done.stderr}") from None
    return case


DDP = "model = torch.nn.parallel.DistributedDataParallel(model)\n"
WATCH = "nsa_harness.train.watch(model,"
COMPILE = "model = torch.compile(model)\n"
FULLY_SHARD = """from torch.distributed.fsdp import fully_shard
for module in (model[0], model[2], model):
    fully_shard(module)
"""
TENSOR_PARALLEL = """from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
model = parallelize_module(model, init_device_mesh("cpu", (2,)), {"0": ColwiseParallel(), "2": RowwiseParallel()})
"""


def compiled(script):
    return script.replace(WATCH, COMPILE + WATCH)


def compiled_inside(script):
    return script.replace(DDP, COMPILE + DDP)


def compiled_afterwards(script):
    return script.replace("\ndata =", "\n" + COMPILE + "data =")


def sharded(script):
    return script.replace(DDP, FULLY_SHARD)


def same_data(script):
    return script.replace("seed(rank)", "seed(1)")


def nan_on_rank_1(script):
    return script.replace("    loss.backward()", "    (loss * float('nan') if rank == 1 and step == 3 else loss).backward()")


MODEL = "model = torch.nn.Sequential("
SKIPPING = """class Skipping(torch.nn.Sequential):
    def forward(self, x):
        return self[2](x.repeat(1, 2)) if step in (%s,) else super().forward(x)
model = Skipping("""
WITHHOLDING = """class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x)
        return x @ weight.t()
    @staticmethod
    def backward(ctx, grad):
        return None, grad.t() @ ctx.saved_tensors[0] if step != 4 else None
class Withholding(torch.nn.Linear):
    def forward(self, x):
        return Product.apply(x, self.weight) + self.bias
"""


def skipping(script, steps):
    """The first layer takes no part in these steps."""
    return script.replace(MODEL, SKIPPING % steps)


def withholding(script):
    """The first layer's weight takes part in step 4 and gets no gradient."""
    return script.replace(MODEL, WITHHOLDING + MODEL + "Withholding(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))\n#")


def finds_unused(script):
    return script.replace(DDP, DDP.replace("(model)", "(model, find_unused_parameters=True)"))


def freezing(script):
    return script.replace("    loss = ", "    model[0].requires_grad_(step < 3)\n    loss = ")


def without_it(script):
    """The optimiser does not hold the first layer, which runs without a graph."""
    script = script.replace("AdamW(model.parameters()", "AdamW(model[2].parameters()")
    return skipping(script, "1, 2, 3, 4, 5, 6")


# The script ends while a thread of gloo is in a callback.
LATE = """
import time, torch
from nsa_harness import train
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
recorder = train.Recorder.__new__(train.Recorder)
recorder.guard = train.Guard(lambda name, error: None)
recorder.end_with_callbacks()
future = torch.distributed.all_reduce(torch.ones(4), async_op=True).get_future()
def done(_):
    time.sleep(0.5)
    print("came to its end")
THEN
del done
"""
# The script ends while the thread of the heartbeats is in a function of torch, as it is where it asks what is done on a card.
BEATING = """
import datetime, os, socket, time, torch
from nsa_harness import socket_channel, train
controller = socket.socket(socket.AF_UNIX)
controller.bind("/tmp/nsa-test-%d" % os.getpid())
controller.listen()
socket_channel.HEARTBEAT_S = 0.01
channel = train.SocketChannel(controller.getsockname(), 0, 0)
os.unlink(controller.getsockname())
store = torch.distributed.TCPStore("127.0.0.1", 0, 1, True)
def inside():
    try:
        store.wait(["never"], datetime.timedelta(seconds=0.3))
    except torch.distributed.DistError:
        pass
channel.on_beat = inside
AT_END
time.sleep(0.1)
"""
OURS = re.compile(r"^(import nsa_harness|nsa_harness\.).*\n", re.M)

# name: how the script is changed, variables, outcome, code of the first finding, what the reason must say; the last: run without --all
TABLE = {
    "planted": (lambda script: script, {"PLANTED": "1"}, "FAIL", "DESYNC.SIZE", "(planted.py:", True),
    "healthy": (lambda script: script, {}, "PASS", None, "9 checks passed", False),
    "without": (lambda script: OURS.sub("", script), {}, "PASS", None, "weights, gradients and NaN were not looked at", False),
    "same_data": (same_data, {}, "FAIL", "DATA.DUPLICATE", "ranks 0-1", False),
    "diverging": (
        lambda script: script.replace("    optimizer.step()", "    rank and [p.grad.mul_(2) for p in model.parameters()]\n    optimizer.step()"),
        {},
        "FAIL",
        "STATE.DIVERGED",
        "",
        False,
    ),
    "compiled": (compiled, {}, "PASS", None, "9 checks passed", True),
    "compiled_inside": (compiled_inside, {}, "PASS", None, "9 checks passed", False),
    "compiled_afterwards": (compiled_afterwards, {}, "PASS", None, "9 checks passed", False),
    "compiled_planted": (compiled, {"PLANTED": "1"}, "FAIL", "DESYNC.SIZE", "rank 1", False),
    "compiled_same_data": (lambda script: same_data(compiled(script)), {}, "FAIL", "DATA.DUPLICATE", "ranks 0-1", False),
    "sharded": (sharded, {}, "PASS", None, "9 checks passed", True),
    "sharded_compiled": (lambda script: compiled(sharded(script)), {}, "PASS", None, "9 checks passed", False),
    "sharded_planted": (sharded, {"PLANTED": "1"}, "FAIL", "DESYNC.OP", "rank 1: allreduce sum of 5 Float", False),
    "sharded_same_data": (lambda script: same_data(sharded(script)), {}, "FAIL", "DATA.DUPLICATE", "ranks 0-1", False),
    "sharded_nan": (lambda script: nan_on_rank_1(sharded(script)), {}, "FAIL", "NAN.ORIGIN", "step 3", False),
    "sharded_skips": (lambda script: skipping(sharded(script), "4"), {}, "PASS", None, "9 checks passed", True),
    "sharded_drops": (lambda script: skipping(sharded(script), "3, 4, 5, 6"), {}, "INCONCLUSIVE", None, "after step 2", False),
    "sharded_frozen": (lambda script: freezing(sharded(script)), {}, "PASS", None, "9 checks passed", False),
    "sharded_not_held": (lambda script: without_it(sharded(script)), {}, "PASS", None, "9 checks passed", False),
    "sharded_withheld": (lambda script: withholding(sharded(script)), {}, "FAIL", "GRAD.MISSING", "although the loss leads to it", True),
    "skips": (lambda script: skipping(finds_unused(script), "4"), {}, "PASS", None, "9 checks passed", True),
    "skips_compiled": (lambda script: compiled(skipping(finds_unused(script), "4")), {}, "PASS", None, "9 checks passed", False),
    "skips_on_rank_1": (
        lambda script: skipping(finds_unused(script), "rank and 4"), {}, "PASS", None, "9 checks passed", False
    ),
    "skips_untold": (lambda script: skipping(script, "4"), {}, "FAIL", "GRAD.MISSING", "The loss does not lead to 2 of 4 parameters", True),
    "withheld": (withholding, {}, "FAIL", "GRAD.MISSING", "although the loss leads to it", False),
    "tensor_parallel": (
        lambda script: script.replace(DDP, TENSOR_PARALLEL), {}, "INCONCLUSIVE", None, "because they are DTensors placed as Shard", False
    ),
}


class YourRun(unittest.TestCase):
    def test_the_page(self):
        script = script_of_the_page()
        names = [name for name, row in TABLE.items() if row[-1] or "--all" in ASKED]
        if not has_fully_shard():
            print("not run, this torch has no fully_shard:", *(name for name in names if name.startswith("sharded")))
            names = [name for name in names if not name.startswith("sharded")]
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
            cases = list(pool.map(lambda name: judged(name, TABLE[name][0](script), folder, **TABLE[name][1]), names))
        for name, case in zip(names, cases):
            _, _, outcome, code, words, _ = TABLE[name]
            with self.subTest(name):
                self.assertEqual(case["outcome"], outcome, case)
                self.assertEqual(next((finding["code"] for finding in case["findings"]), None), code, case)
                self.assertIn(words, case["reason"], case)

    def test_a_callback_comes_to_its_end_before_the_script(self):
        # With `future.then(done)` in its place nobody waits, and it comes to its end or not, as the machine has time.
        script = LATE.replace("THEN", "recorder.then(future, done)")
        ended = subprocess.run([sys.executable, "-c", script], cwd=os.path.join(ROOT, "python"), capture_output=True, check=False)
        self.assertIn(b"came to its end", ended.stdout, ended.stderr)

    def test_the_thread_of_heartbeats_is_not_in_torch_at_the_end(self):
        script = BEATING.replace("AT_END", "__import__('atexit').register(channel.end_calls)")
        ended = subprocess.run([sys.executable, "-c", script], cwd=os.path.join(ROOT, "python"), capture_output=True, check=False)
        self.assertEqual(ended.returncode, 0, ended.stderr)


if __name__ == "__main__":
    ASKED = sys.argv[1:]
    unittest.main(argv=sys.argv[:1], verbosity=0)
else:
    ASKED = []
