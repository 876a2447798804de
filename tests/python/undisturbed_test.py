"""What the two lines and `nsa-harness run` must never do: stop, change or slow a training. Each test trains twice, alone and under the
controller that NSA_HARNESS_PROGRAM names, or takes the controller away while the training runs."""

import concurrent.futures
import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.environ["NSA_HARNESS_PROGRAM"]
DEADLINE_S = 120

# Trains `model` with `optimizer` for STEPS and prints every loss whole. BEFORE and AFTER stand around the two lines.
TRAINING = """
import os, sys
import torch, torch.distributed as dist
import nsa_harness
torch.manual_seed(0)
torch.set_num_threads(1)
if "RANK" in os.environ:
    dist.init_process_group("gloo")
rank = dist.get_rank() if dist.is_initialized() else 0
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
MODEL
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
BEFORE
nsa_harness.train.watch(model, optimizer)
AFTER
data = torch.Generator().manual_seed(rank)
for step in range(1, STEPS + 1):
    x = torch.randn(8, 16, generator=data)
    y = torch.randint(0, 4, (8,), generator=data)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    STEP
    optimizer.step()
    os.write(1, f"rank {rank} step {step} {loss.item()!r}\\n".encode())  # in one piece, beside other ranks
if dist.is_initialized():
    # torch aborts a process that ends while a thread of Gloo calls a hook of the script.
    import gc, time
    dist.barrier()
    del loss, model, optimizer
    gc.collect()
    dist.destroy_process_group()
    time.sleep(0.5)
"""
DDP = "model = torch.nn.parallel.DistributedDataParallel(model)"
TENSOR_PARALLEL = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
model = parallelize_module(model, init_device_mesh("cpu", (2,)), {"0": ColwiseParallel(), "2": RowwiseParallel()})
"""
REPLICATED = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import distribute_module
model = distribute_module(model, init_device_mesh("cpu", (2,)))
forward = model.forward
from torch.distributed.tensor import DTensor, Replicate
model.forward = lambda x: forward(DTensor.from_local(x, init_device_mesh("cpu", (2,)), [Replicate()])).to_local()
"""
FSDP1 = """
from torch.distributed.fsdp import FullyShardedDataParallel
model = FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True)
"""
OWN_HOOK = """
def own_hook(state, bucket):
    buffer = bucket.buffer() / dist.get_world_size()
    return dist.all_reduce(buffer, async_op=True).get_future().then(lambda future: future.value()[0])
model.register_comm_hook(None, own_hook)
"""
BUILTIN_HOOK = "model._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)"
FORKS = """
    if step == 3:
        child = os.fork()
        if child == 0:
            model(x).sum().backward()
            optimizer.step()
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
"""
FORK_RAISES = """
    if step == 3:
        child = os.fork()
        if child == 0:
            raise ValueError("of the child")
        os.waitpid(child, 0)
"""
BREAKS = """
import nsa_harness.train
def broken(tensors):
    raise RuntimeError("planted in nsa_harness")
nsa_harness.train.hash_of = broken
"""
FULL_GRAPH = "model = torch.compile(model, fullgraph=True, backend='eager')"
FOREIGN_OPTIMIZER = """
class Plain:
    def __init__(self, inner):
        self.inner, self.calls = inner, 0
    def zero_grad(self):
        self.inner.zero_grad()
    def step(self):
        self.calls += 1
        self.inner.step()
optimizer = Plain(optimizer)
"""
MORE_PARAMETERS = "optimizer.add_param_group({'params': [torch.nn.Parameter(torch.ones(3))]})"
FROZEN = "for param in model.parameters(): param.requires_grad_(False)\nscale = torch.nn.Parameter(torch.ones(1))\nforward = model.forward\n" \
    "model.forward = lambda x: forward(x) * scale\noptimizer = torch.optim.SGD([scale], lr=1e-2)"


def training(model="", before="", after="", step="pass", steps=4):
    script = TRAINING.replace("MODEL", model).replace("BEFORE", before).replace("AFTER", after).replace("STEPS", str(steps))
    return script.replace("    STEP", step if step.startswith("\n") else "    " + step)


# name: (script, ranks, outcome, what the reason says)
LOOKED = "looked at each of 4 steps"
TABLE = {
    "three_ranks": (training(DDP), 3, "PASS", LOOKED),
    "bucket_view_of_three_ranks": (
        training(DDP.replace("(model)", "(model, gradient_as_bucket_view=True)")), 3, "INCONCLUSIVE", "with gradient_as_bucket_view and 3 ranks"
    ),
    "own_hook_before": (training(DDP, before=OWN_HOOK), 2, "INCONCLUSIVE", "the script has a communication hook of its own"),
    "own_hook_after": (training(DDP, after=OWN_HOOK), 2, "INCONCLUSIVE", "the script has a communication hook of its own"),
    "builtin_hook": (training(DDP, before=BUILTIN_HOOK), 2, "INCONCLUSIVE", "the script has a communication hook of its own"),
    "hook_after_the_first_step": (
        training(DDP, step="\n    if step == 1:\n" + textwrap.indent(OWN_HOOK, 8 * " ")), 2, "INCONCLUSIVE", "a communication hook of its own"
    ),
    "fully_sharded_1": (training(FSDP1), 2, "INCONCLUSIVE", "because FullyShardedDataParallel hides their values and gradients"),
    "tensor_parallel": (training(TENSOR_PARALLEL), 2, "INCONCLUSIVE", "because they are DTensors placed as"),
    "unknown_placement": (training(REPLICATED), 2, "INCONCLUSIVE", "because they are DTensors placed as Replicate"),
    "forks": (training(step=FORKS), 1, "PASS", LOOKED),
    "fork_that_raises": (training(step=FORK_RAISES), 1, "PASS", LOOKED),
    "error_of_ours": (training(DDP, before=BREAKS), 2, "INCONCLUSIVE", "because of an error of nsa_harness itself: RuntimeError: planted"),
    "whole_graph": (training(after=FULL_GRAPH), 1, "PASS", LOOKED),
    "whole_graph_in_place": (training(after="model.compile(fullgraph=True, backend='eager')"), 1, "PASS", LOOKED),
    "foreign_optimizer": (training(before=FOREIGN_OPTIMIZER), 1, "PASS", LOOKED),
    "more_parameters": (training(before=MORE_PARAMETERS), 1, "INCONCLUSIVE", "1 parameter of the optimiser, because the model does not have them"),
    "nothing_to_train": (training(before=FROZEN), 1, "INCONCLUSIVE", "because no parameter of the model wants a gradient"),
    "watched_twice": (training(after="nsa_harness.train.watch(model, optimizer)"), 1, "INCONCLUSIVE", "because watch was called before"),
    "no_model": (training().replace("watch(model, ", "watch([model], "), 1, "INCONCLUSIVE", "because watch was given a list in place of a module"),
}


SOME = ("three_ranks", "own_hook_after", "fully_sharded_1", "tensor_parallel", "forks", "error_of_ours", "whole_graph")  # without --all


def command_of(path, ranks):
    if ranks == 1:
        return [sys.executable, path]
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), path]


def environment(**more):
    return dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python"), OMP_NUM_THREADS="1", **more)


def losses(text):
    return sorted(re.findall(r"rank \d+ step \d+ [^\sr]+", text))  # two ranks may write into one line


def write(folder, name, script):
    path = os.path.join(folder, name + ".py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(script)
    return path


def options(folder, name):
    return ["--out", os.path.join(folder, name), "--db", os.path.join(folder, name + ".db")]


def watched(folder, name, command, *more):
    """The one case, and what the command printed."""
    arguments = [PROGRAM, "run", "--json", *more, *options(folder, name), "--", *command]
    done = subprocess.run(arguments, env=environment(), capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    try:
        (case,) = json.loads(done.stdout)["cases"]
    except ValueError:
        raise AssertionError(f"{name}: exit {done.returncode}: {done.stderr}") from None
    return case, done.stderr


def wait_for(condition, what):
    end = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {DEADLINE_S} s: {what}")
        time.sleep(0.05)
    return found


class Undisturbed(unittest.TestCase):
    def test_a_training_gives_the_same_losses_with_and_without_the_harness(self):
        def both(name):
            script, ranks, _, _ = TABLE[name]
            with tempfile.TemporaryDirectory() as folder:
                command = command_of(write(folder, name, script), ranks)
                alone = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=DEADLINE_S)
                return alone, *watched(folder, name, command)

        names = list(TABLE) if "--all" in ASKED else [name for name in TABLE if name in ASKED] or list(SOME)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            results = dict(zip(names, pool.map(both, names)))
        for name, (alone, case, printed) in results.items():
            _, ranks, outcome, words = TABLE[name]
            with self.subTest(name):
                self.assertEqual(alone.returncode, 0, alone.stderr)
                self.assertEqual(len(losses(alone.stdout)), 4 * ranks)
                self.assertEqual(losses(printed), losses(alone.stdout), printed)
                self.assertEqual(case["outcome"], outcome, case)
                self.assertIn(words, case["reason"], case)
                self.assertEqual(case["findings"], [], case)

    # The record of a step is some 200 kB here, and a socket holds less than a megabyte.
    def test_a_controller_that_is_stopped_does_not_hold_the_training(self):
        large = "model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(400)], torch.nn.Linear(16, 4))"
        with tempfile.TemporaryDirectory() as folder:
            path = write(folder, "train", training(large, step="open(f'{sys.argv[1]}/step{step}', 'w').close()", steps=10))
            command = [PROGRAM, "run", "--json", "--quiet", *options(folder, "runs"), "--", sys.executable, path, folder]
            with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as controller:
                wait_for(lambda: os.path.exists(folder + "/step1"), "the first step")
                controller.send_signal(signal.SIGSTOP)
                try:
                    wait_for(lambda: os.path.exists(folder + "/step10"), "the last step, while the controller is stopped")
                finally:
                    controller.send_signal(signal.SIGCONT)
                (case,) = json.loads(controller.communicate(timeout=DEADLINE_S)[0])["cases"]
        self.assertIn(case["outcome"], ("PASS", "INCONCLUSIVE"), case)  # what was not read in time is lost, and reported
        self.assertEqual(case["findings"], [], case)

    def test_a_controller_that_is_killed_takes_no_training_along_and_leaves_nothing_behind(self):
        with tempfile.TemporaryDirectory() as folder:
            step = "import time; time.sleep(0.2); open(f'{sys.argv[1]}/step{step}', 'w').close(); print('x' * 100000, flush=True)"
            path = write(folder, "train", training(step=step, steps=20))
            command = [PROGRAM, "run", "--quiet", *options(folder, "runs"), "--", "bash", "-c", f"{sys.executable} {path} {folder}; sleep 601.5 &"]
            with subprocess.Popen(command, env=environment()) as controller:
                wait_for(lambda: os.path.exists(folder + "/step1"), "the first step")
                controller.kill()
            wait_for(lambda: os.path.exists(folder + "/step20"), "the last step, after the controller was killed")
            wait_for(lambda: not running("601.5"), "the end of what the command left behind")
            wait_for(lambda: not running(path), "the end of the command")
            (out,) = glob.glob(os.path.join(folder, "runs", "*", "*", "command.out"))
            with open(out, encoding="utf-8") as file:
                self.assertEqual(len(losses(file.read())), 20)

    @unittest.skipUnless(os.geteuid() == 0, "a network namespace needs root")
    def test_the_two_lines_reach_the_controller_from_another_network_namespace(self):
        with tempfile.TemporaryDirectory() as folder:
            deep = os.path.join(folder, "a folder whose name is long " * 5)  # longer than the address of a socket
            os.mkdir(deep)
            case, _ = watched(deep, "train", ["unshare", "--net", sys.executable, write(folder, "train", training())])
        self.assertEqual(case["outcome"], "PASS", case)
        self.assertIn(LOOKED, case["reason"])

    @unittest.skipUnless(os.geteuid() == 0, "a small disk needs root")
    def test_a_full_disk_of_the_record_takes_neither_the_training_nor_its_output(self):
        with tempfile.TemporaryDirectory() as folder:
            disk = os.path.join(folder, "disk")
            os.mkdir(disk)
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", disk], check=True)
            try:
                path = write(folder, "train", training(step="print('x' * 100000, flush=True)", steps=8))
                command = [PROGRAM, "run", "--out", disk, "--db", os.path.join(folder, "runs.db"), "--", sys.executable, path]
                done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=DEADLINE_S)
            finally:
                subprocess.run(["umount", disk], check=True)
        self.assertEqual(len(losses(done.stdout)), 8, done.stderr)
        self.assertEqual(done.returncode, 5, "something could not be recorded")
        self.assertIn("No space left on device", done.stderr)


class Output(unittest.TestCase):
    """What a command prints is shown as it comes, and whoever does not read it holds nothing up."""

    def start(self, folder, code, *more, **streams):
        command = [PROGRAM, "run", *more, *options(folder, "runs"), "--", sys.executable, "-c", code]
        return subprocess.Popen(command, env=environment(), **streams)

    # Without a flush: Python keeps 8 KiB of what is no terminal.
    def test_a_line_is_on_the_terminal_before_the_command_ends(self):
        terminal, shown = os.openpty()
        with tempfile.TemporaryDirectory() as folder:
            code = f"import os, time; print('a line of the command', os.isatty(1))\nwhile not os.path.exists({folder!r} + '/seen'): time.sleep(0.05)"
            with self.start(folder, code, stdout=shown, stderr=subprocess.DEVNULL) as controller:
                os.close(shown)
                seen = b""
                while b"a line of the command True" not in seen:
                    seen += os.read(terminal, 1000)
                open(folder + "/seen", "w").close()
                while chunk := self.read(terminal):
                    seen += chunk
                self.assertEqual(controller.wait(DEADLINE_S), 0)
        self.assertIn(b"PASS", seen)
        os.close(terminal)

    @staticmethod
    def read(terminal):
        try:
            return os.read(terminal, 1 << 16)
        except OSError:  # nobody has its other end open any more
            return b""

    def test_a_terminal_that_is_stopped_does_not_hold_the_command(self):
        terminal, shown = os.openpty()
        with tempfile.TemporaryDirectory() as folder:
            code = f"for i in range(20000): print('line', i, 'x' * 100)\nopen({folder!r} + '/done', 'w').close()"
            with self.start(folder, code, stdout=shown, stderr=subprocess.DEVNULL) as controller:
                os.close(shown)
                wait_for(lambda: os.path.exists(folder + "/done"), "the end of the command, while nobody reads the terminal")
                seen = b""
                while chunk := self.read(terminal):
                    seen += chunk
                self.assertEqual(controller.wait(DEADLINE_S), 0)
        self.assertEqual(len(re.findall(rb"line \d+ x{100}", seen)), 20000)
        os.close(terminal)

    def test_stdout_and_stderr_stay_apart_and_with_json_stdout_holds_the_object_alone(self):
        code = "import sys; print('to stdout'); print('to stderr', file=sys.stderr)"
        for more, out, err in (((), "to stdout", "to stderr"), (("--json",), "", "to stdout"), (("--quiet",), "", "")):
            with tempfile.TemporaryDirectory() as folder:
                controller = self.start(folder, code, *more, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                stdout, stderr = controller.communicate(timeout=DEADLINE_S)
            with self.subTest(more):
                self.assertIn(out, stdout)
                self.assertIn(err, stderr)
                self.assertNotIn("to stderr", stdout)
                if more:
                    self.assertNotIn("to stdout", stdout)
                if "--quiet" in more:
                    self.assertNotIn("to std", stderr)


def running(word):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                found += [pid] if word in file.read() else []
        except OSError:
            pass
    return found


if __name__ == "__main__":
    ASKED = [name for name in sys.argv[1:] if name in TABLE or name == "--all"]
    unittest.main(argv=[sys.argv[0], *(name for name in sys.argv[1:] if name not in ASKED)], verbosity=0)
else:
    ASKED = []
