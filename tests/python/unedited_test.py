"""`nsa-harness run --watch`: scripts without a line of ours are looked at, stay what they are, and where the hook could not come in the
case is never GO. The controller that NSA_HARNESS_PROGRAM names, and this Python's torch. --all: forms of scripts that take longer."""

import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.environ["NSA_HARNESS_PROGRAM"]
HOOK = os.path.join(ROOT, "python", "nsa_harness", "hook")
DEADLINE_S = 200

HEAD = """
import copy, os, sys
import torch
import torch.distributed as dist
torch.set_num_threads(1)
RANK = int(os.environ.get("RANK", "0"))
if "RANK" in os.environ:
    dist.init_process_group("gloo")
torch.manual_seed(0)
data = torch.Generator().manual_seed(RANK)

def batch():
    return torch.randn(8, 16, generator=data)

def told(step, loss):
    os.write(1, f"s> rank {RANK} step {step} {loss.item().hex()}\\n".encode())
"""
MODEL = """
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
"""
LOOP = """
for step in range(1, 7):
    loss = model(batch()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    told(step, loss)
"""
END = """
if dist.is_initialized():
    dist.destroy_process_group()
"""
DDP = "model = torch.nn.parallel.DistributedDataParallel(model)\n"
ADAMW = "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)\n"
PARTS = """
class Parts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Linear(16, 8)
        self.decoder = torch.nn.Linear(8, 16)
    def loss(self, x):  # called by its name: no hook of the module itself sees it
        return (self.decoder(self.encoder(x)) - x).square().mean()
model = Parts()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for step in range(1, 7):
    loss = model.loss(batch())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    told(step, loss)
"""
CLOSURE = """
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
def closure():
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    return loss
for step in range(1, 7):
    x = batch()
    told(step, optimizer.step(closure))
"""
COPIES = """
teacher = copy.deepcopy(model).requires_grad_(False)
average = copy.deepcopy(model).requires_grad_(False)
""" + DDP + ADAMW + """
for step in range(1, 7):
    x = batch()
    loss = (model(x) - teacher(x)).square().mean() + model.module[0].weight.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for own, other in zip(model.module.parameters(), average.parameters()):
        other.data.lerp_(own.data, 0.1)
    average(x)
    told(step, loss)
"""
EVALUATED = DDP + ADAMW + """
with torch.no_grad():
    for _ in range(3):
        model.eval()(batch())
model.train()
""" + LOOP
TWO_OPTIMIZERS = """
critic = torch.nn.Linear(4, 1)
other = torch.optim.SGD(critic.parameters(), lr=1e-2)
""" + ADAMW + """
for step in range(1, 7):
    loss = critic(model(batch())).square().mean()
    optimizer.zero_grad()
    other.zero_grad()
    loss.backward()
    optimizer.step()
    other.step()
    told(step, loss)
"""
GAN = """
wrap = torch.nn.parallel.DistributedDataParallel
maker = wrap(torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4)))
judge = wrap(torch.nn.Linear(4, 1))
makers, judges = (torch.optim.Adam(model.parameters(), lr=1e-3) for model in (maker, judge))
for step in range(1, 7):
    with torch.no_grad():
        made = maker(batch())
    loss = judge(made).mean() - judge(batch()[:, :4]).mean()
    judges.zero_grad()
    loss.backward()
    judges.step()
    loss = -JUDGE(maker(batch())).mean()
    makers.zero_grad()
    loss.backward()
    makers.step()
    # here
    told(step, loss)
"""
AUTOENCODER = """
encoder, decoder = (torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(*sizes)) for sizes in ((16, 4), (4, 16)))
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
model = lambda x: decoder(encoder(x))
""" + LOOP
HEAD_OUTSIDE = DDP + """
head = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=1e-2)
""" + LOOP.replace("model(batch())", "head(model(batch()))")
MASTERS = "model.bfloat16()\n" + DDP + """
masters = [param.detach().float().requires_grad_() for param in model.parameters()]
optimizer = torch.optim.AdamW(masters, lr=1e-3)
for step in range(1, 7):
    loss = model(batch().bfloat16()).float().square().mean()
    model.zero_grad()
    loss.backward()
    for master, param in zip(masters, model.parameters()):
        master.grad = param.grad.float()
    optimizer.step()
    with torch.no_grad():
        for master, param in zip(masters, model.parameters()):
            param.copy_(master)
    told(step, loss)
"""
SCALE_OUTSIDE = DDP + """
scale = torch.ones(1, requires_grad=True)
optimizer = torch.optim.SGD([*model.parameters(), scale], lr=1e-2)
""" + LOOP.replace("model(batch())", "(model(batch()) * scale)")
THAWED = """
for phase in (0, 1):
    model[0].requires_grad_(phase == 1)
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW([param for param in model.parameters() if param.requires_grad], lr=1e-3)
""" + LOOP.replace("\n", "\n    ").replace("model(", "wrapped(").replace("range(1, 7)", "range(6 * phase + 1, 6 * phase + 7)")
OUTSIDE = """
def forward(x):
    return torch.nn.functional.linear(x, model[2].weight @ model[0].weight, model[2].bias)
model[0].bias.requires_grad_(False)
optimizer = torch.optim.SGD([param for param in model.parameters() if param.requires_grad], lr=1e-2)
""" + LOOP.replace("model(batch())", "forward(batch())")
TENSORS = """
weight = torch.zeros(16, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=1e-2)
""" + LOOP.replace("model(batch())", "(batch() @ weight - 1)")
RESTARTED = DDP + ADAMW + LOOP.replace("    loss = ", "    if step == 4:\n        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)\n    loss = ")
AROUND = """
class Around(torch.optim.Optimizer):
    def __init__(self, inner):
        super().__init__(inner.param_groups, {})
        self.inner = inner
    def step(self):
        self.inner.step()
""" + ADAMW + "optimizer = Around(optimizer)\n" + LOOP
OWN_LINES = DDP + ADAMW + "import nsa_harness\nnsa_harness.train.watch(model, optimizer)\n" + LOOP
FORKING = ADAMW + """
def train_in_a_child():
    child = os.fork()
    if child == 0:
        optimizer.zero_grad()
        model(torch.ones(1, 16)).sum().backward()
        optimizer.step()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
train_in_a_child()
""" + LOOP + "train_in_a_child()\n"
NAN = DDP + ADAMW + LOOP.replace("    optimizer.zero_grad()", "    loss = loss * float('nan') if step == 3 else loss\n    optimizer.zero_grad()")
COMPILED = "model = torch.compile(model, backend='eager')\n"
IN_PLACE = "model.compile(backend='eager')\n"

# Ranks that no variable numbers: they say it to torch.distributed alone.
SPAWNED = """
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
def train(rank, folder, last):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + folder, rank=rank, world_size=2)
    torch.manual_seed(0)
    data = torch.Generator().manual_seed(rank)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(1, 7):
        if last and rank == 1 and step == 4:
            raise ValueError("no shard 7")
        optimizer.zero_grad()
        loss = model(torch.randn(8, 16, generator=data)).square().mean()
        loss.backward()
        optimizer.step()
        os.write(1, f"s> rank {rank} step {step} {loss.item().hex()}\\n".encode())
    dist.destroy_process_group()
if __name__ == "__main__":
    mp.spawn(train, (os.path.abspath(__file__) + ".meet", LAST), nprocs=2)
"""

# A worker of the loader raises in step 5.
ROWS = """
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 24
    def __getitem__(self, index):
        return {number: torch.randn(16) for number in range(16)}[index]
for rows in torch.utils.data.DataLoader(Rows(), batch_size=4, num_workers=1):
    optimizer.zero_grad()
    model(rows).square().mean().backward()
    optimizer.step()
"""

GO = "GO"
# name: script, ranks (0: no launcher), decision, words, run without --all
TABLE = {
    "ddp": (MODEL + DDP + ADAMW + LOOP, 2, GO, "looked at each of 6 steps on ranks 0-1: 6 forwards, 6 backwards, 6 reductions, 6 optimiser steps each", True),
    "optimizer_first": (MODEL + ADAMW + DDP + LOOP, 2, GO, "6 forwards, 6 backwards, 6 reductions", False),
    "plain": (MODEL + ADAMW + LOOP, 0, GO, "looked at each of 6 steps on rank 0: 6 forwards", True),
    "compiled": (MODEL + DDP + ADAMW + COMPILED + LOOP, 2, GO, "6 forwards, 6 backwards", False),
    "compiled_before": (MODEL + COMPILED + DDP + ADAMW + LOOP, 2, GO, "6 forwards, 6 backwards", False),
    "compiled_in_place": (MODEL + DDP + IN_PLACE + ADAMW + LOOP, 2, GO, "6 forwards, 6 backwards", True),
    "compiled_in_place_after": (MODEL + DDP + ADAMW + IN_PLACE + LOOP, 2, GO, "6 forwards, 6 backwards", False),
    "parts": (PARTS, 0, GO, "6 forwards, 6 backwards", False),
    "closure": (MODEL + CLOSURE, 0, GO, "6 forwards, 6 backwards", True),
    "closure_ddp": (MODEL + DDP + CLOSURE, 2, GO, "6 forwards, 6 backwards", False),
    "copies": (MODEL + COPIES, 2, GO, "6 forwards, 6 backwards", False),
    "evaluated": (MODEL + EVALUATED, 2, GO, "6 forwards, 6 backwards", False),
    "restarted": (MODEL + RESTARTED, 2, GO, "looked at each of 6 steps on ranks 0-1: 6 forwards", False),
    "around": (MODEL + AROUND, 0, GO, "looked at each of 6 steps on rank 0: 6 forwards, 6 backwards, 0 reductions, 6 optimiser steps", True),
    "own_lines": (MODEL + OWN_LINES, 2, GO, "6 forwards, 6 backwards", True),
    "forking": (MODEL + FORKING, 0, GO, "6 forwards, 6 backwards", True),
    "nan": (MODEL + NAN, 2, "NO-GO", "NAN.ORIGIN @ step 3", False),
    "made_anew": (MODEL + ADAMW + MODEL + LOOP, 0, "NO-GO", "OPT.", False),
    "two_optimizers": (MODEL + TWO_OPTIMIZERS, 0, GO, "looked at each of 6 steps on rank 0: 12 forwards, 6 backwards, 0 reductions, 6 optimiser", True),
    "gan": (GAN.replace("JUDGE", "judge"), 2, GO, "looked at each of 12 steps on ranks 0-1: 24 forwards, 12 backwards, ", True),
    "gan_inside": (GAN.replace("JUDGE", "judge.module"), 2, GO, "looked at each of 12 steps on ranks 0-1: 18 forwards, 12 backwards, ", False),
    "gan_parts": (
        GAN.replace("JUDGE", "judge").replace("# here", "with torch.no_grad(): maker.module[0].weight[0, 0] += RANK * (step == 3)"),
        2, "NO-GO", "STATE.DIVERGED @ param model2.0, step 6 — After step 6, parameters differ between ranks 0-1: 1 of 6 (model2.0.weight)", True,
    ),
    "gan_nan": (
        GAN.replace("JUDGE", "judge").replace("# here", "with torch.no_grad(): maker.module[2].bias[0] += float('nan') if RANK and step == 2 else 0"),
        2, "NO-GO", "NAN.ORIGIN @ param model2.2.bias, rank 1, step 4, phase optimizer", False,
    ),
    "autoencoder": (AUTOENCODER, 2, GO, "looked at each of 6 steps on ranks 0-1: 12 forwards, 6 backwards, ", True),
    "head_outside": (MODEL + HEAD_OUTSIDE, 2, "NO-GO", "2 of 6 differ between ranks after the reduction (model2.weight, model2.bias)", True),
    "masters": (MODEL + MASTERS, 2, GO, "looked at each of 6 steps", False),
    "scale_outside": (MODEL + SCALE_OUTSIDE, 2, "INCONCLUSIVE", "1 parameter of the optimiser, because the model does not have", False),
    "thawed": (MODEL + THAWED, 2, GO, "looked at each of 12 steps", False),
    "outside": (MODEL + OUTSIDE, 0, "INCONCLUSIVE", "not judged: step 1, because no call of the module", True),
    "tensors": (TENSORS, 0, "INCONCLUSIVE", "no module holds the parameters of the optimiser SGD with 1 parameter", True),
}


def run(script, folder, ranks, wrapped, python=(sys.executable,), name="train", **variables):
    path = os.path.join(folder, name + ".py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(script)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment.update(OMP_NUM_THREADS="1", NSA_HARNESS_TREE=ROOT, **variables)
    command = [*python, path]
    if ranks:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), path]
    options = ["--watch", "--quiet", "--json", "--out", os.path.join(folder, name), "--db", os.path.join(folder, name + ".db")]
    words = [PROGRAM, "run", *options, "--", *command] if wrapped else command
    done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    if not wrapped:
        return sorted(re.findall(r"^s> .*$", done.stdout, re.M)), done
    try:
        said = json.loads(done.stdout)
        (case,) = said["cases"]
    except ValueError:
        raise AssertionError(f"{name}: exit {done.returncode}: {done.stderr}") from None
    with open(said["report"], encoding="utf-8") as file:
        decision = file.readline().removeprefix("# ").split(":")[0]
    with open(os.path.join(os.path.dirname(said["report"]), case["folder"], "command.out") if "folder" in case else out_of(folder, name), encoding="utf-8") as file:
        lines = sorted(re.findall(r"^s> .*$", file.read(), re.M))
    return lines, decision, case


def out_of(folder, name):
    for where, _, files in os.walk(os.path.join(folder, name)):
        if "command.out" in files:
            return os.path.join(where, "command.out")
    raise AssertionError(f"{name}: no command.out")


class Unedited(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_scripts(self):
        names = [name for name, row in TABLE.items() if row[-1] or "--all" in ASKED]
        chosen = [word for word in ASKED if word in TABLE]
        names = chosen or names

        def both(name):
            script, ranks = HEAD + TABLE[name][0] + END, TABLE[name][1]
            python = {"PYTHONPATH": os.path.join(ROOT, "python")} if name == "own_lines" else {}
            alone, done = run(script, self.folder.name, ranks, False, name=name, **python)
            self.assertTrue(alone, done.stderr)
            return alone, run(script, self.folder.name, ranks, True, name=name, **python)

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            rows = list(pool.map(both, names))
        for name, (alone, (lines, decision, case)) in zip(names, rows):
            _, _, wanted, words, _ = TABLE[name]
            with self.subTest(name):
                self.assertEqual(lines, alone)
                self.assertEqual(decision, wanted, case["reason"])
                self.assertIn(words, case["reason"])

    def test_what_the_hook_cannot_reach_is_never_go(self):
        script = HEAD + MODEL + ADAMW + LOOP + END
        for option in ("-I", "-E", "-S"):
            with self.subTest(option):
                python = (sys.executable, option)
                if option == "-S":  # torch is found by hand
                    import torch

                    packages = os.path.dirname(os.path.dirname(torch.__file__))
                    lines, decision, case = run(f"import sys\nsys.path.append({packages!r})\n" + script, self.folder.name, 0, True, python, "S")
                else:
                    lines, decision, case = run(script, self.folder.name, 0, True, python, option[1:])
                self.assertEqual(len(lines), 6, case)
                self.assertEqual((decision, case["outcome"]), ("INCONCLUSIVE", "INCONCLUSIVE"), case["reason"])
                self.assertIn("not hooked: no training was seen on rank 0", case["reason"])

    def test_ranks_of_spawn_are_found_by_what_they_say(self):
        lines, decision, case = run(SPAWNED.replace("LAST", "False"), self.folder.name, 0, True, name="good")
        self.assertEqual((len(lines), decision), (12, GO), case["reason"])
        self.assertIn("looked at each of 6 steps on ranks 0-1: 6 forwards", case["reason"])
        _, decision, case = run(SPAWNED.replace("LAST", "True"), self.folder.name, 0, True, name="bad")
        first = case["findings"][0]
        self.assertEqual((decision, first["code"], first["site"]["ranks"]), ("NO-GO", "CRASH.EXCEPTION", [1]), case["reason"])
        self.assertIn('raise ValueError("no shard 7")', case["reason"])
        both = SPAWNED.replace("LAST", "True").replace("rank == 1 and step == 4", "step == 4")
        _, decision, case = run(both, self.folder.name, 0, True, name="both")
        causes = [finding for finding in case["findings"] if finding["role"] == "initiating"]
        self.assertEqual(decision, "NO-GO")
        for finding in causes:  # the parent prints one of the two
            self.assertIn('raise ValueError("no shard 7")', finding["statement"])

    def test_what_a_worker_of_the_loader_raised_is_told_with_its_line(self):
        _, decision, case = run(HEAD + MODEL + ADAMW + ROWS, self.folder.name, 0, True)
        self.assertEqual((decision, case["findings"][0]["code"]), ("NO-GO", "CRASH.EXCEPTION"), case["reason"])
        self.assertRegex(case["reason"], r"KeyError: 16, at __getitem__ \(.*\.py:\d+\): return \{number")

    def test_a_rank_that_a_signal_ended_tells_its_line(self):
        script = HEAD + MODEL + DDP + ADAMW + LOOP.replace("optimizer.zero_grad()", "optimizer.zero_grad()\n    if RANK == 1 and step == 4: os.abort()") + END
        _, decision, case = run(script, self.folder.name, 2, True)
        self.assertEqual((decision, case["findings"][0]["code"], case["findings"][0]["site"]["ranks"]), ("NO-GO", "CRASH.SIGNAL", [1]), case["reason"])
        self.assertRegex(case["reason"], r"\(script\.py:\d+\)|\.py:\d+")

    def test_one_rank_without_the_hook_is_not_accused(self):
        again = "import os, sys\nif os.environ['RANK'] == '1' and not sys.flags.isolated:\n    os.execv(sys.executable, [sys.executable, '-I', *sys.argv])\n"
        _, decision, case = run(again + HEAD + MODEL + DDP + ADAMW + LOOP + END, self.folder.name, 2, True)
        self.assertEqual((decision, case["outcome"], case["findings"]), ("INCONCLUSIVE", "INCONCLUSIVE", []), case["reason"])
        self.assertIn("not hooked: no training was seen on rank 1", case["reason"])


# What Python finds when the hook stands in front of it: "NEXT MODULES PATH".
FOUND = "import sys; print(getattr(sys.modules.get('sitecustomize'), '__file__', None), 'torch' in sys.modules, 'nsa_harness' in sys.modules, sys.path[1:])"


class NextOne(unittest.TestCase):
    """The hook hands over to the sitecustomize that Python would have found."""

    def found(self, *folders, hooked=True, code=FOUND, **variables):
        environment = dict(os.environ, PYTHONPATH=":".join([HOOK] * hooked + list(folders)), NSA_HARNESS_SOCKET="/nowhere", NSA_HARNESS_ORIGIN_MS="0")
        return subprocess.run([sys.executable, "-c", code], env={**environment, **variables}, capture_output=True, text=True, check=False)

    def own(self, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        with open(os.path.join(folder.name, "sitecustomize.py"), "w", encoding="utf-8") as file:
            file.write(text)
        return folder.name

    def assert_same(self, *folders, **more):
        plain, hooked = self.found(*folders, hooked=False, **more), self.found(*folders, **more)
        self.assertEqual((hooked.returncode, hooked.stdout), (plain.returncode, plain.stdout))
        return plain, hooked

    def test_none(self):
        plain, hooked = self.assert_same()
        self.assertEqual(hooked.stderr, plain.stderr)
        self.assert_same(code="import sitecustomize")

    def test_of_the_user(self):
        plain, hooked = self.assert_same(self.own("import sys\nprint('mine', __name__, __file__)\n"))
        self.assertIn("mine sitecustomize", hooked.stdout)
        self.assertEqual(hooked.stderr, plain.stderr)

    def test_one_that_fails(self):
        for text in ("raise ValueError(1)", "import a_module_that_is_not_there", "syntax error"):
            with self.subTest(text):
                plain, hooked = self.assert_same(self.own(text))
                self.assertEqual("Error in sitecustomize" in plain.stderr, "Error in sitecustomize" in hooked.stderr)

    def test_a_torch_that_cannot_be_imported(self):
        folder = self.own("")
        os.makedirs(os.path.join(folder, "torch", "optim"))
        for name, text in (("torch/__init__.py", "from torch import optim"), ("torch/optim/__init__.py", "from torch.optim import optimizer"), ("torch/optim/optimizer.py", "1 / 0")):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        plain, hooked = self.assert_same(folder, code="import torch")
        self.assertIn("ZeroDivisionError", hooked.stderr)
        with open(os.path.join(folder, "torch/optim/optimizer.py"), "w", encoding="utf-8") as file:
            file.write("class Optimizer:\n    def __init__(self): print('made', __spec__.loader.__dict__.keys())\n")
        self.assert_same(folder, code="import torch.optim.optimizer as o; o.Optimizer(); print(o.__loader__.exec_module)"[:-25])


if __name__ == "__main__":
    ASKED = sys.argv[1:]
    unittest.main(argv=sys.argv[:1], verbosity=0)
else:
    ASKED = []
