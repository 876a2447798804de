#!/usr/bin/env python3
"""Draws failures from scenarios/faults (file, place, seeds, strength), runs each in the model toy, diagnoses it and compares what was
established with what was planted.

    tests/selftest/diagnose.py NSA_HARNESS [--count 60] [--seed 1] [--budget 120] [--fault NAME ...]

Prints one line a failure. Established and right counts among those whose cause can be removed: an option, a seam's back end, a layer
above the lowest, or a rank that the record itself names. Exit 1 when that is below 75 %, when more than 2 % of all are established and
wrong, or when the median takes longer than 60 s. What no check saw, and what this machine cannot run, is told and drawn anew.
"""
import argparse
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONGEST = 900  # seconds of one command

CHECKPOINTING = "activation checkpointing"
ACCUMULATION = "gradient accumulation"
# What each file's name says that its failure depends on, beside the layers that it names.
OPTIONS = {
    "bucket_size_lost": ["the size of buckets"],
    "clip_discarded": ["clipping"],  # of the norm that others get wrong nothing can be removed: it is computed in every step
    "flag_not_routed": ["sdpa in seam attend_cmp"],
    "fused_gate_ignores_override": ["the override of the gate"],
    "gc_autocast": [CHECKPOINTING],
    "gc_late_binding": [CHECKPOINTING],
    "gc_late_binding_nested": [CHECKPOINTING],
    "gc_nested": [CHECKPOINTING, "find_unused"],
    "gc_selection_flip": [CHECKPOINTING],
    "hook_dropped": ["compression between ranks"],
    "lr_microsteps": [ACCUMULATION],
    "no_sync_misplaced": [ACCUMULATION],
    "phi_v_wrong": ["the form of phi"],
    "rebuild_loses_accumulated": [ACCUMULATION],
    "rope_scale_ignored": ["rope_scale"],
    "scaler_skips": ["precision fp16"],
    "sched_on_skip": ["precision fp16"],
    "select_nondeterministic": ["the kind of inputs"],
    "silent_fallback": ["packed in seam attend_sel"],
    "static_accum": ["static_graph", ACCUMULATION],
    "static_no_delay": ["static_graph"],
    "tie_bias": ["the kind of inputs"],
}
# The branch that stands in `fault.form`, where no finding names it.
BRANCHES = {"heads_scrambled_decode": "branch win"}
# One rank does it, which its own record tells.
OF_ONE_RANK = ["data_exhausted", "loader_raises", "loader_repeats", "rank_killed", "rank_stopped", "slow_loader"]


def said(words, folder):
    """The object that a command prints with --json, and its exit code; None where it printed none."""
    done = subprocess.run(words + ["--json"], capture_output=True, text=True, timeout=LONGEST, cwd=folder)
    try:
        return json.loads(done.stdout), done.returncode, done.stderr
    except ValueError:
        return None, done.returncode, done.stderr


def drawn(label, path):
    """The numbers that a case's label gives for `path`."""
    found = re.search(re.escape(path) + r"=\[?([0-9, ]+)", label)
    return [int(number) for number in found.group(1).replace(",", " ").split()] if found else []


def truth(name, text, label):
    """What may be established, and whether any of it can be removed."""
    written = re.search(r"^fault:.*layers: \[([0-9, ]+)\]", text, re.M)
    layers = drawn(label, "fault.layers") or ([int(n) for n in written.group(1).split(",")] if written else [])
    allowed = list(OPTIONS.get(name, []))
    if name in BRANCHES:
        allowed.append(BRANCHES[name])
    if name in OF_ONE_RANK:
        ranks = drawn(label, "fault.rank") or [int(n) for n in re.findall(r"^fault:.*rank: ([0-9]+)", text, re.M)]
        allowed += [f"rank {rank}" for rank in ranks]
    if len(layers) == 1 and layers[0] > 0:
        allowed.append(f"layer {layers[0]}")
    # The rank, where one is planted and at least two are left without it.
    return allowed, bool(allowed)


def established(diagnosis):
    found = [one["removes"] for one in diagnosis["questions"] if one["answer"] == "established"]
    for sentence in diagnosis["because"]:
        by_record = re.match(r"It is (rank [0-9]+), as its own record shows", sentence)
        if by_record:
            found.append(by_record.group(1))
    return found


def diagnosed(program, file, seed, folder, budget):
    """What came of one drawn failure; a text where there was none."""
    where = ["--db", str(folder / "runs.db"), "--out", str(folder / "runs")]
    run, _, error = said([program, "selftest", str(file), "--seed", str(seed), "--quiet"] + where, folder)
    if run is None:
        return "cannot run: " + error.strip()[-150:]
    planted = run["cases"][0]
    begin = time.monotonic()
    object_, code, error = said([program, "diagnose", run["run"], "1", "--budget", str(budget), "--quiet"] + where, folder)
    if object_ is None:
        return f"no failure ({planted['outcome']}): " + error.strip()[-150:]
    took = time.monotonic() - begin
    if not object_.get("diagnoses"):
        return "not diagnosed: " + object_["cases"][0]["reason"][:150]
    diagnosis = object_["diagnoses"][0]
    allowed, removable = truth(file.stem, file.read_text(), planted["case"])
    found = established(diagnosis)
    status = diagnosis["status"]
    wrong = [one for one in found if one not in allowed]
    verdict = "WRONG" if wrong else "right" if found else status
    return {
        "verdict": verdict,
        "removable": removable,
        "symptom": diagnosis["symptom"],
        "found": found,
        "allowed": allowed,
        "seconds": took,
        "runs": sum(len(one["runs"]) for one in diagnosis["questions"]) + len(diagnosis["repeats"]),
        "finished": diagnosis["finished"],
        "because": diagnosis["because"],
        "unclear": [f"{one['removes']}: {one['says']}" for one in diagnosis["questions"] if one["answer"] == "unclear"],
        "code": code,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", type=int, default=120)
    parser.add_argument("--fault", action="append", default=[])
    given = parser.parse_args()
    random_ = random.Random(given.seed)
    files = sorted((ROOT / "scenarios/faults").glob("*.yaml"))
    files = [file for file in files if "\nparallel: {ranks: 1, device: cuda}" not in file.read_text()]
    if given.fault:
        files = [file for file in files if file.stem in given.fault]
    random_.shuffle(files)
    rows = []
    for number in range(3 * max(given.count, len(files))):
        if len(rows) == given.count:
            break
        file = files[number % len(files)]
        with tempfile.TemporaryDirectory() as folder:
            row = diagnosed(os.path.abspath(given.program), file, random_.randrange(1000), pathlib.Path(folder), given.budget)
        if isinstance(row, str):
            print(f"-          {file.stem}: {row}", flush=True)
            continue
        rows.append(row)
        told = ", ".join(row["found"]) or "; ".join(row["because"])[:160]
        print(f"{row['verdict']:<10} {file.stem}: {row['symptom']}: {told} "
              f"({'of ' + ', '.join(row['allowed']) if row['removable'] else 'nothing to remove'}) "
              f"{row['runs']} runs, {row['seconds']:.0f} s{'' if row['finished'] else ', NOT FINISHED'}"
              f"{' | ' + ' | '.join(row['unclear'])[:300] if row['unclear'] else ''}", flush=True)
    if not rows:
        sys.exit("nothing failed")
    removable = [row for row in rows if row["removable"]]
    right = sum(row["verdict"] == "right" for row in removable)
    wrong = sum(row["verdict"] == "WRONG" for row in rows)
    median = statistics.median(row["seconds"] for row in rows)
    counts = {word: sum(row["verdict"] == word for row in rows) for word in ("right", "WRONG", "supported", "unknown")}
    print(f"{len(rows)} failures, the cause of {len(removable)} can be removed: {right} of them established and right, "
          f"{wrong} of all wrong; {counts}; seconds median {median:.0f}, longest {max(row['seconds'] for row in rows):.0f}")
    sys.exit(1 if 100 * right < 75 * len(removable) or 50 * wrong > len(rows) or median > 60 else 0)


main()
