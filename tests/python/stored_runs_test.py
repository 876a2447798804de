"""Every kind of stored run can be read again: judge, report, --verify, --html, explain and bundle, on the record of commands that ended in
all ways, of kernels, and of runs that were cut off, pruned or never began. The controller that NSA_HARNESS_PROGRAM names, and this
Python's torch."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILT = os.environ["NSA_HARNESS_PROGRAM"]

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
WATCHED = """
import os, sys, torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
if "--lines" in sys.argv:
    import nsa_harness
    nsa_harness.train.watch(model, optimizer, **({"every": 1} if "--every" in sys.argv else {}))
    if "--other" in sys.argv:
        other = torch.nn.Linear(2, 2)
        nsa_harness.train.watch(other, torch.optim.SGD(other.parameters(), lr=0.01))
generator = torch.Generator().manual_seed(rank)
for step in range(1, 13):
    loss = model(torch.randn(8, 4, generator=generator)).square().mean()
    if "--nan" in sys.argv and step == 3 and rank == 1:
        loss = loss * float("nan")
    if "--raise" in sys.argv and step == 3 and rank == 1:
        print("the last word on stderr", file=sys.stderr)
        raise ValueError("bad batch")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
"""
KERNEL = """
import sys, torch, nsa_harness
from beside import window

def attend(q, k, v):
    scale = q.shape[-1] ** -0.5 * (2.0 if "@" in WRONG else 1.0)
    h = q.shape[2] // k.shape[2]
    k, v = (x.repeat_interleave(h, dim=2) for x in (k, v))
    logits = torch.einsum("bshd,bthd->bhst", q, k) * scale
    return torch.einsum("bhst,bthd->bshd", logits.masked_fill(~window(q.shape[1], 12), float("-inf")).softmax(-1), v)

WRONG = "WRONG_HERE"
if __name__ == "__main__":
    verdict = nsa_harness.validate(attend, dict(level="attend_win", heads=4, groups=2, d_k=8, d_v=6, window=12))
    print(verdict)
"""
BESIDE = """
import torch

def window(rows, width):
    at = torch.arange(rows)
    apart = at[:, None] - at[None, :]
    return (apart >= 0) & (apart < width)
"""


class Stored:
    """A folder with a database of its own in which runs of all kinds are made."""

    def __init__(self, folder):
        self.folder = folder
        # As a wheel is installed: the program lies in the package, and so finds it.
        self.site = os.path.join(folder, "site")
        shutil.copytree(os.path.join(ROOT, "python", "nsa_harness"), os.path.join(self.site, "nsa_harness"))
        self.path = os.path.join(self.site, "nsa_harness", "bin", "nsa-harness")
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        shutil.copy(BUILT, self.path)
        shutil.copytree(os.path.join(os.path.dirname(BUILT), "..", "lib"), os.path.join(self.site, "nsa_harness", "lib"))
        self.database = os.path.join(folder, "runs.db")
        self.environment = dict(
            os.environ,
            NSA_HARNESS_DB=self.database,
            NSA_HARNESS_PYTHON=sys.executable,
            PYTHONPATH=self.site,
            OMP_NUM_THREADS="1",
        )
        del self.environment["NSA_HARNESS_PROGRAM"]
        self.write("watched.py", WATCHED)
        self.write("beside.py", BESIDE)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def program(self, *words, **options):
        return subprocess.run([self.path, *words], cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False, **options)

    def run(self, *words, expected):
        done = self.program("run", "--quiet", *words)
        if done.returncode != expected:
            raise AssertionError(f"{words}: exit {done.returncode}, wanted {expected}: {done.stdout}{done.stderr}")
        return self.last()

    def last(self):
        return max(os.listdir(os.path.join(self.folder, "runs")))


# What a run leaves is made once; each kind is a name, how it is made, and what `bundle` and `explain` answer: an exit code and a word.
def command(*words, expected):
    return lambda stored: stored.run("--", *words, expected=expected)


def watched(*words, expected):
    return lambda stored: stored.run("--", *TORCHRUN, "watched.py", *words, expected=expected)


def kernel(wrong, expected):
    def make(stored):
        script = stored.write("my-kernel.py", KERNEL.replace("WRONG_HERE", "@" if wrong else ""))
        done = subprocess.run([sys.executable, script], cwd=stored.folder, env=stored.environment, capture_output=True, text=True, check=False)
        if expected not in done.stdout:
            raise AssertionError(f"wanted {expected}: {done.stdout}{done.stderr}")
        return stored.last()

    return make


def interrupted(stored):
    process = subprocess.Popen([stored.path, "run", "--quiet", "--", "sleep", "60"], cwd=stored.folder, env=stored.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for_record(stored, "sleep")
    process.send_signal(signal.SIGINT)
    process.wait(60)
    return stored.last()


def cut_off(stored):
    """The controller is killed: what its command did afterwards, and how it ended, is not recorded."""
    process = subprocess.Popen([stored.path, "run", "--quiet", "--", "sleep", "4"], cwd=stored.folder, env=stored.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for_record(stored, "sleep")
    process.kill()
    process.wait(60)
    return stored.last()


def wait_for_record(stored, name):
    until = time.monotonic() + 60
    while time.monotonic() < until:
        runs = os.path.join(stored.folder, "runs")
        newest = max(os.listdir(runs), default="") if os.path.isdir(runs) else ""
        case = os.path.join(runs, newest, "01_" + name, "events.jsonl")
        if os.path.exists(case) and os.path.getsize(case) > 0:
            time.sleep(0.5)
            return
        time.sleep(0.1)
    raise AssertionError(f"{name}: nothing was recorded")


def skipped(stored):
    path = stored.write(
        "needs_cards.yaml",
        json.dumps(
            {
                "version": 1,
                "scenario": "needs_cards",
                "kind": "kernel",
                "model": dict(dim=24, n_layers=1, n_heads=4, n_kv_groups=2, d_k=8, d_v=6, l=16, d=16, l_sel=16, n_sel=3, w=12),
                "training": dict(steps=1, seq_len=1, batch_size=1, precision="fp32", data=dict(source="uniform")),
                "parallel": dict(ranks=1, device="cuda"),
                "kernel": dict(callable="beside:window", level="attend_win"),
                "requires": dict(gpus=64),
                "checks": ["kernel_is_oracle"],
            }
        ),
    )
    done = stored.program("run", path)
    if done.returncode != 4:
        raise AssertionError(f"exit {done.returncode}: {done.stdout}{done.stderr}")
    return stored.last()


def rebuilt(stored):
    """A record whose database was lost."""
    name = stored.run("--", "sh", "-c", "exit 3", expected=1)
    os.remove(stored.database)
    done = stored.program("db", "rebuild", os.path.join(stored.folder, "runs", name))
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return name


def pruned(stored):
    """The tensors of a failed kernel are dropped; its events and verdicts stay."""
    name = kernel(True, "FAIL")(stored)
    done = stored.program("db", "prune", "--keep", "90d", "--tensors", "0")
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return name


NO_CAUSE = (3, "wanted a failure with a cause")
OWN_COMMAND = (3, "command of your own")
KINDS = {
    # name: (how it is made, its outcome, what bundle answers)
    "a command that ended by itself": (command("true", expected=0), "PASS", NO_CAUSE),
    "a command that failed": (command("sh", "-c", "echo why >&2; exit 3", expected=1), "CRASH", OWN_COMMAND),
    "a command that a signal ended": (command("sh", "-c", "kill -SEGV $$", expected=1), "CRASH", OWN_COMMAND),
    "a command that took too long": (lambda stored: stored.run("--budget", "4", "--", "sh", "-c", "while :; do :; done", expected=1), "SLOW", OWN_COMMAND),
    "ranks of a launcher that ended well": (watched(expected=0), "PASS", NO_CAUSE),
    "ranks of a launcher of which one raised": (watched("--raise", expected=1), "CRASH", OWN_COMMAND),
    "two lines, all steps": (watched("--lines", "--every", expected=0), "PASS", NO_CAUSE),
    "two lines, steps that are not recorded in full": (watched("--lines", expected=0), "PASS", NO_CAUSE),
    "two lines, of one of two models": (watched("--lines", "--other", expected=2), "INCONCLUSIVE", NO_CAUSE),
    "two lines, a NaN": (watched("--lines", "--nan", expected=1), "FAIL", OWN_COMMAND),
    "a command that was interrupted": (interrupted, "", (3, "")),
    "a run whose controller was killed": (cut_off, "", (3, "")),
    "a kernel of a script that is right": (kernel(False, "PASS"), "PASS", NO_CAUSE),
    "a kernel of a script that is wrong": (kernel(True, "FAIL"), "FAIL", (0, "attend")),
    "a case that was skipped": (skipped, "SKIP", (3, "was skipped")),
    "a run whose database was lost": (rebuilt, "CRASH", OWN_COMMAND),
    "a run whose tensors were dropped": (pruned, "FAIL", (0, "attend")),
}


class StoredRunsTest(unittest.TestCase):
    maxDiff = None

    def test_every_kind_of_stored_run_is_read_again(self):
        for kind, (make, outcome, bundled) in KINDS.items():
            with self.subTest(kind=kind), tempfile.TemporaryDirectory() as folder:
                stored = Stored(folder)
                name = make(stored)
                for verb, check in VERBS.items():
                    with self.subTest(verb=verb):
                        check(self, stored, name, outcome, bundled)

    def test_what_the_report_of_a_kernel_recommends_runs(self):
        """Reproduce, bundle and replay: by a shell that knows nothing of the script's Python."""
        with tempfile.TemporaryDirectory() as folder:
            stored = Stored(folder)
            name = kernel(True, "FAIL")(stored)
            report = stored.program("report", name).stdout
            bare = {"PATH": "/usr/bin:/bin", "HOME": folder}
            commands = re.findall(r"env NSA_HARNESS_PYTHON=.*", report)
            self.assertEqual({re.search(r" (run|bundle) ", one).group(1) for one in commands}, {"run", "bundle"}, report)
            for one in commands:
                with self.subTest(command=one):
                    done = subprocess.run(["sh", "-c", one], cwd=folder, env=bare, capture_output=True, text=True, check=False)
                    self.assertIn("NUMERIC.FORWARD", done.stdout + done.stderr)
                    self.assertNotIn("did not fail alike", done.stdout + done.stderr)
            (made,) = [one for one in os.listdir(folder) if one.endswith(".tar.zst")]
            words = [stored.path, "replay", made, "--out", os.path.join(folder, "again")]
            replayed = dict(bare, NSA_HARNESS_PYTHON=sys.executable)
            done = subprocess.run(words, cwd=folder, env=replayed, capture_output=True, text=True, check=False)
            self.assertIn("SAME failure", done.stdout, done.stderr)
            done = subprocess.run([*words, "--kernel", "my-kernel.py"], cwd=folder, env=replayed, capture_output=True, text=True, check=False)
            self.assertIn("SAME failure", done.stdout, done.stderr)
            os.rename(os.path.join(folder, "my-kernel.py"), os.path.join(folder, "moved.py"))
            done = subprocess.run(words, cwd=folder, env=replayed, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 3)
            self.assertIn("wanted --kernel PATH", done.stderr)
            content = subprocess.run(["tar", "--zstd", "-xOf", os.path.join(folder, made)], capture_output=True, text=True, check=True).stdout
            self.assertNotIn(folder, content, "a bundle holds no names of folders")


def judged(test, stored, name, outcome, _):
    done = stored.program("judge", name, "--json")
    test.assertIn(done.returncode, (4,) if outcome == "SKIP" else (0, 1, 2, 5), done.stderr)
    test.assertNotIn("CANNOT JUDGE", done.stderr)
    (case,) = json.loads(done.stdout)["cases"]
    if outcome:
        test.assertEqual(case["outcome"], outcome)


def reported(test, stored, name, outcome, _):
    done = stored.program("report", name)
    test.assertEqual(done.returncode, 0, done.stderr)
    test.assertIn(f"| Run | {name}", done.stdout)
    test.assertIn(outcome, done.stdout)


def verified(test, stored, name, _outcome, _):
    path = os.path.join(stored.folder, name + ".md")
    made = stored.program("report", name, "--out", path)
    test.assertEqual(made.returncode, 0, made.stderr)
    done = stored.program("report", name, "--verify", path)
    test.assertEqual(done.returncode, 0, done.stdout + done.stderr)


def paged(test, stored, name, outcome, _):
    path = os.path.join(stored.folder, name + ".html")
    done = stored.program("report", name, "--html", path)
    test.assertEqual(done.returncode, 0, done.stderr)
    test.assertEqual(done.stderr, "" if outcome != "SKIP" else done.stderr, "the page lacks something")
    with open(path, encoding="utf-8") as file:
        page = file.read()
    test.assertTrue(page.endswith("</html>\n"), "the page has no end")
    if outcome in ("FAIL", "CRASH", "SLOW", "HANG"):
        test.assertTrue('class="bars lanes"' in page, "the page has no timeline")


def explained(test, stored, name, outcome, _):
    done = stored.program("explain", name, "1")
    if outcome == "SKIP":
        test.assertEqual((done.returncode, done.stderr.strip()), (4, "nsa-harness: case needs_cards was never judged"))
    else:
        test.assertEqual(done.returncode, 0, done.stderr)
        test.assertIn(outcome, done.stdout)


def bundled_as(test, stored, name, _outcome, bundled):
    code, words = bundled
    path = os.path.join(stored.folder, name + ".tar.zst")
    done = stored.program("bundle", name, "1", "--no-shrink", "--out", path)
    test.assertEqual(done.returncode, code, done.stdout + done.stderr)
    test.assertIn(words, done.stdout + done.stderr)


VERBS = {"judge": judged, "report": reported, "--verify": verified, "--html": paged, "explain": explained, "bundle": bundled_as}

if __name__ == "__main__":
    unittest.main(verbosity=0)
