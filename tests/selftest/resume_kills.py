#!/usr/bin/env python3
"""Kills a training run at random points (step, phase, delay, precision, accumulation) and demands that it resumes bit by bit.

    tests/selftest/resume_kills.py NSA_HARNESS [--count 20] [--seed 1]

Prints one line a kill; exit 1 when a case was not PASS.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = 6  # of scenarios/resume.yaml


def draw(random_):
    values = {
        "life.kill_step": random_.randint(1, STEPS),
        "life.kill_phase": random_.choice(["data", "forward", "backward", "optimizer", "save", "save", "save"]),
        "life.kill_after_ms": random_.choice([0, 0, 1, 2, 3, 5, 8, 13]),
        "life.save_every": random_.choice([1, 1, 2]),
        "training.precision": random_.choice(["fp32", "bf16", "fp16"]),
        "training.accumulate": random_.choice([1, 1, 2]),
    }
    if values["life.kill_phase"] == "save":  # a step that saves nothing has no such phase
        values["life.kill_step"] += values["life.kill_step"] % values["life.save_every"]
    return values


def killed(program, values):
    axes = ("life.kill_phase", "training.precision")
    with tempfile.TemporaryDirectory() as folder:
        words = [program, "run", str(ROOT / "scenarios/resume.yaml"), "--db", folder + "/r.db", "--out", folder, "--quiet", "--json"]
        for path, value in values.items():
            words += ["--only" if path in axes else "--set", f"{path}={value}"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    if not done.stdout.strip():
        return "ERROR", done.stderr.strip()[-200:]
    case = json.loads(done.stdout)["cases"][0]
    said = next((v["reason"] for v in case["verdicts"] if v["check"] == "resume_equal"), case["reason"])
    return case["outcome"], said if case["outcome"] == "PASS" else case["reason"] + " | " + said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    random_ = random.Random(given.seed)
    wrong = 0
    for _ in range(given.count):
        values = draw(random_)
        outcome, said = killed(given.program, values)
        wrong += outcome != "PASS"
        print(outcome, values, said[:200], flush=True)
    print(f"{given.count} kills, {given.count - wrong} resumed bit by bit")
    sys.exit(1 if wrong else 0)


main()
