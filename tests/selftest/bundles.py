#!/usr/bin/env python3
"""Draws failures from scenarios/faults (file, place, seeds, strength), bundles each, replays it in another folder and with another
home, and demands the same code there; counts sizes and what shrinking did.

    tests/selftest/bundles.py NSA_HARNESS [--count 30] [--seed 1] [--seconds 40] [--fault NAME ...]

Prints one line a failure; exit 1 when fewer than 29 of 30 came again, when the median bundle is above 2 MB, or when a smaller case
has another code than the whole one. What this machine cannot run, and what no check saw, is told and drawn anew.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
LARGEST_MEDIAN = 2_000_000  # bytes
LONGEST = 900  # seconds of one command


def said(words, folder, home):
    """The object that a command prints with --json, and its exit code; None where it printed none."""
    environment = dict(os.environ, HOME=str(home))
    done = subprocess.run(words + ["--json"], capture_output=True, text=True, timeout=LONGEST, cwd=folder, env=environment)
    try:
        return json.loads(done.stdout), done.returncode, done.stderr
    except ValueError:
        return None, done.returncode, done.stderr


def code_of(title):
    return title.split(" @ ")[0]


def sizes_text(before, after):
    after = dict(after)
    return " ".join(f"{name.split('.')[-1]}:{was}->{after[name]}" for name, was in before if after.get(name, was) != was)


def bundled(program, file, seed, folder, seconds):
    """What came of one drawn failure; a text where there was none."""
    here, there = folder / "here", folder / "there"
    here.mkdir()
    there.mkdir()
    database = ["--db", str(here / "runs.db")]
    run, _, error = said([program, "selftest", str(file), "--seed", str(seed), "--out", str(here), "--quiet"] + database, here, here)
    if run is None:
        return "cannot run: " + error.strip()[-150:]
    bundle_file = folder / "failure.tar.zst"
    begin = time.monotonic()
    made, _, error = said([program, "bundle", "last", "1", "--out", str(bundle_file), "--seconds", str(seconds)] + database, here, here)
    if made is None:
        return "no failure: " + error.strip()[-150:]
    took = time.monotonic() - begin
    replay, code, error = said([program, "replay", str(bundle_file), "--out", str(there / "out"), "--quiet"], there, there)
    result = replay["replay"] if replay else {"result": "error", "text": error.strip()[-200:], "seen": []}
    whole = made.get("original", made)
    return {
        "wanted": code_of(whole["causes"][0]),
        "kept": code_of(made["causes"][0]) == code_of(whole["causes"][0]),
        "same": result["result"] == "same" and code == 1,
        "seen": code_of(result["seen"][0]) if result["seen"] else result["text"],
        "bytes": made["bytes"],
        "tries": len(made["tries"]),
        "seconds": took,
        "smaller": sizes_text(whole["sizes"], made["sizes"]),
        "shrinking": made["shrinking"],
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--fault", action="append", default=[])
    given = parser.parse_args()
    random_ = random.Random(given.seed)
    files = sorted((ROOT / "scenarios/faults").glob("*.yaml"))
    if given.fault:
        files = [file for file in files if file.stem in given.fault]
    random_.shuffle(files)
    rows = []
    for file in files:
        if len(rows) == given.count:
            break
        with tempfile.TemporaryDirectory() as folder:
            row = bundled(os.path.abspath(given.program), file, random_.randrange(1000), pathlib.Path(folder), given.seconds)
        if isinstance(row, str):
            print(f"-     {file.stem}: {row}", flush=True)
            continue
        rows.append(row)
        print(
            f"{'same' if row['same'] else 'OTHER'}  {file.stem}: {row['wanted']}, seen {row['seen']}, {row['bytes'] / 1e6:.3f} MB, "
            f"{row['tries']} tries in {row['seconds']:.0f} s, {row['smaller'] or row['shrinking']}"
            f"{'' if row['kept'] else ' LOST ITS CODE'}",
            flush=True,
        )
    if not rows:
        sys.exit("nothing failed")
    same = sum(row["same"] for row in rows)
    median = statistics.median(row["bytes"] for row in rows)
    smaller = sum(bool(row["smaller"]) for row in rows)
    lost = sum(not row["kept"] for row in rows)
    print(f"{len(rows)} failures: {same} came again with the same code, {smaller} made smaller, {lost} lost their code; "
          f"bundle median {median / 1e6:.3f} MB, largest {max(row['bytes'] for row in rows) / 1e6:.3f} MB; "
          f"tries median {statistics.median(row['tries'] for row in rows)}")
    sys.exit(1 if 30 * same < 29 * len(rows) or median > LARGEST_MEDIAN or lost else 0)


main()
