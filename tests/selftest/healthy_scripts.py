#!/usr/bin/env python3
"""Healthy trainings stay what they are under `nsa-harness run`, with the two lines and without.
    tests/selftest/healthy_scripts.py NSA_HARNESS [--python PY] [--only s01,s02] [--json FILE]
Each script of tests/selftest/healthy runs alone, under `nsa-harness run`, under it with the two lines, and with --watch in their place. Output (losses and hashes of all
weights to the last bit among it), errors and exit code must be the same, and nothing may be found in it but what its head says.
Exit 1: one of them differs. PY (default: this Python) must have torch."""

import argparse
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SECONDS = 300
QUIET = ("PASS", "INCONCLUSIVE")  # what a healthy training may be called
# The exit code of the training itself: that of `nsa-harness run` is the verdict's.
SHELL = ["sh", "-c", '"$@"; code=$?; echo $code >"$EXIT_CODE"; exit $code', "sh"]


def head(script, word):
    with open(script, encoding="utf-8") as file:
        found = re.search(rf"^# {word}: (.*)$", file.read(), re.M)
    return found.group(1).split() if found else []


def command_of(script, python):
    launcher, *ranks = head(script, "launch")
    torchrun = [python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", *ranks]
    return SHELL + (torchrun if launcher == "torchrun" else [python]) + [script]


def own_lines(text):
    """A progress bar overwrites its line."""
    return [line for line in re.split(r"[\r\n]+", text) if line.startswith("s> ")]


def run(script, wrapper, watch, options):
    with tempfile.TemporaryDirectory() as folder:
        code = os.path.join(folder, "code")
        environment = dict(os.environ, EXIT_CODE=code, OMP_NUM_THREADS="1", NSA_HARNESS_DB=os.path.join(folder, "runs.db"))
        environment["PYTHONPATH"] = os.path.join(ROOT, "python")
        environment.setdefault("NSA_HARNESS_TREE", ROOT)
        environment.pop("WATCH", None)
        if watch:
            environment["WATCH"] = "1"
        command = [*wrapper, *command_of(script, options.python)]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS)
        with open(code, encoding="utf-8") as file:
            seen = {"exit": int(file.read()), "out": own_lines(done.stdout), "err": own_lines(done.stderr)}
        told = re.findall(r"^([A-Z]+) {2,}\S+ +[\d.e+-]+ s  (.*)$", re.sub(r"\x1b\[[\d;]*m", "", done.stdout), re.M)
        return seen, " ".join(told[-1]) if told else ""


def judged_rightly(script, told, with_lines):
    wanted = head(script, "told")
    if wanted and (with_lines or wanted[0] == "CRASH"):
        return told.startswith(wanted[0]) and wanted[1] in told
    return told.startswith(QUIET)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    options = parser.parse_args()
    wrapper = [os.path.abspath(options.program), "run", "--"]
    scripts = sorted(glob.glob(os.path.join(HERE, "healthy", "s*.py")))
    if options.only:
        scripts = [script for script in scripts if os.path.basename(script)[:3] in options.only.split(",")]
    wrong, rows = 0, []
    for script in scripts:
        alone, _ = run(script, [], False, options)
        for way, watch in (("run", False), ("run with the two lines", True), ("run --watch", False)):
            seen, told = run(script, [*wrapper[:1], *way.split()[:2], "--"] if way == "run --watch" else wrapper, watch, options)
            differs = [key for key in alone if alone[key] != seen[key]]
            right = judged_rightly(script, told, way != "run")
            good = not differs and right and any("sha256" in line for line in alone["out"])
            wrong += not good
            rows.append({"script": os.path.basename(script), "way": way, "differs": differs, "told": told, "right": good})
            print("right" if good else "WRONG", os.path.basename(script), way + ":", ", ".join(differs) or "the same;", told[:150], flush=True)
    print(f"{len(rows) - wrong} of {len(rows)} right")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
