#!/usr/bin/env python3
"""Healthy loops, as people write them, stay healthy and stay what they are under `nsa-harness run`.
    tests/selftest/healthy_loops.py NSA_HARNESS [--times 5] [--only WORD] [--no-lines] [--jobs 1] [--package DIR] [--python PY] [--json FILE]
    tests/selftest/healthy_loops.py --plain [--times 2] [--only WORD] [--jobs 1]

Each script of tests/selftest/healthy_loops runs once alone (LINES=0) and `--times` times under NSA_HARNESS: with the two lines, or with
`--no-lines` without them and with `run --watch`. Its first line says how it is started. A script with the line `# needs: numpy` is left out
where PY does not have numpy (object collectives need it).

Counts alarms (FAIL, HANG, SLOW, CRASH, OOM), cases that were not decided (INCONCLUSIVE) with their reasons, anything that is neither
(ERROR, no answer), and runs whose last lines (the loss and a sha256 of all weights on each rank) are not those of the run alone.
`--plain` needs no NSA_HARNESS: it runs each script `--times` times alone, and looks whether it ends with 0 and always with the same lines.
PY (default: this Python) must have torch. DIR (default: `python` of this tree) is where `import nsa_harness` is found.

Exit 0: no alarm, nothing that is neither, all lines the same, and at most 1 script of 20 is INCONCLUSIVE."""

import argparse
import collections
import concurrent.futures
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SECONDS = 240  # one run, at most
ALARMS = ("FAIL", "HANG", "SLOW", "CRASH", "OOM")
UNDECIDED_SHARE = 1 / 20

LAST = r"s> rank \d+ .*? weights [0-9a-f]{64}"  # the lines of two ranks may stand in one
Told = collections.namedtuple("Told", "exit outcome reason lines seconds")


def head(script, word):
    with open(script, encoding="utf-8") as file:
        found = re.search(rf"^# {word}: (.*)$", file.read(), re.M)
    return found.group(1).split() if found else []


def has(python, module):
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


def launch_of(script, python):
    words = head(script, "launch")
    if words[0] == "python":
        return [python, script]
    return [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", words[1], script]


def answer_of(text):
    """What `run --json` prints: one case."""
    (case,) = json.loads(text)["cases"]
    told = [f"{f['code']} ({f['role']}): {f['statement']}" for f in case["findings"] if f["role"] == "initiating"]
    return case["outcome"], "; ".join(told) or case["reason"]


def run(script, options, alone):
    with tempfile.TemporaryDirectory(prefix="healthy_loops.") as folder:
        path = os.pathsep.join(part for part in (options.package, os.environ.get("PYTHONPATH")) if part)
        environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=path)
        environment.pop("LINES", None)
        if alone or options.no_lines:
            environment["LINES"] = "0"
        words = launch_of(script, options.python)
        if not alone:
            watch = ["--watch"] if options.no_lines else []
            ours = [os.path.abspath(options.program), "run", "--quiet", "--json", "--budget", str(SECONDS), "--out", folder]
            words = ours + ["--db", os.path.join(folder, "runs.db"), *watch, "--", *words]
        began = time.monotonic()
        try:
            done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS + 60)
        except subprocess.TimeoutExpired:
            return Told(None, "NO END", "it did not end", [], time.monotonic() - began)
        seconds = time.monotonic() - began
        if alone:
            lines = sorted(re.findall(LAST, done.stdout))
            outcome = "alone" if done.returncode == 0 and lines else "ENDS BADLY"
            return Told(done.returncode, outcome, "" if outcome == "alone" else done.stderr[-500:], lines, seconds)
        # `--quiet` shows nothing of the script. Its stdout is a file in the folder of the case.
        text = ""
        for kept in glob.glob(os.path.join(folder, "*", "*", "command.out")):
            with open(kept, encoding="utf-8") as file:
                text += file.read()
        try:
            outcome, reason = answer_of(done.stdout)
        except (ValueError, KeyError) as error:
            outcome, reason = "NO ANSWER", f"{error!r}: {done.stdout[-200:]} {done.stderr[-300:]}"
        return Told(done.returncode, outcome, reason, sorted(re.findall(LAST, text)), seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?")
    parser.add_argument("--times", type=int)
    parser.add_argument("--only", default="")
    parser.add_argument("--no-lines", action="store_true")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--package", default=os.path.join(ROOT, "python"))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--json")
    options = parser.parse_args()
    if not options.program and not options.plain:
        parser.error("NSA_HARNESS is missing")
    times = options.times or (2 if options.plain else 5)
    scripts = sorted(glob.glob(os.path.join(HERE, "healthy_loops", "*.py")))
    scripts = [s for s in scripts if os.path.basename(s) != "ending.py" and options.only in os.path.basename(s)]
    for script in [s for s in scripts if not all(has(options.python, module) for module in head(s, "needs"))]:
        print(f"left out: {os.path.basename(script)} needs {' '.join(head(script, 'needs'))}")
        scripts.remove(script)
    plan = [(script, index == 0 or options.plain) for script in scripts for index in range(times + (not options.plain))]
    first, rows = {}, []
    undecided, alarms, neither, differs = collections.defaultdict(list), collections.Counter(), collections.Counter(), collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for (script, alone), told in zip(plan, pool.map(lambda item: run(item[0], options, item[1]), plan)):
            name = os.path.basename(script)[:-3]
            same = told.lines == first.setdefault(name, told.lines) and bool(told.lines)
            if told.outcome in ALARMS:
                alarms[name] += 1
            elif told.outcome == "INCONCLUSIVE":
                undecided[name].append(told.reason)
            elif told.outcome not in ("PASS", "alone"):
                neither[name] += 1
            if not same:
                differs[name] += 1
            rows.append({"script": name, "alone": alone, "same": same, **told._asdict()})
            good = same and told.outcome in ("PASS", "alone")
            print(
                "right" if good else "WRONG" if told.outcome != "INCONCLUSIVE" or not same else "undecided",
                f"{told.seconds:5.1f} s  {name}: {told.outcome}, exit {told.exit}{'' if same else ', other last lines'}"
                f"{': ' + told.reason[:300] if told.outcome not in ('PASS', 'alone') else ''}",
                flush=True,
            )
            if options.json:
                with open(options.json, "w", encoding="utf-8") as file:
                    json.dump(rows, file, indent=1)
    print(f"\n{len(scripts)} scripts, {len(plan)} runs")
    for what, counted in (("alarms", alarms), ("neither alarm nor verdict", neither), ("other loss or weights than alone", differs)):
        print(f"{what}: {sum(counted.values())} runs of {len(counted)} scripts{': ' if counted else ''}{', '.join(counted)}")
    most = int(len(scripts) * UNDECIDED_SHARE)
    print(f"INCONCLUSIVE: {sum(map(len, undecided.values()))} runs of {len(undecided)} scripts, at most {most} scripts wanted")
    for name, reasons in undecided.items():
        for reason, count in collections.Counter(reasons).most_common():
            print(f"  {name} ({count}): {reason}")
    return 1 if alarms or neither or differs or len(undecided) > len(scripts) * UNDECIDED_SHARE else 0


if __name__ == "__main__":
    sys.exit(main())
