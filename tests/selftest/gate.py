#!/usr/bin/env python3
"""The gate for changes of the judge: two programs judge the same stored bytes, and every row of their judgements is compared.

    tests/selftest/gate.py make NSA_HARNESS CORPUS [--scenarios FILE|DIR ...] [--part I/N]
        runs scenarios (default: all planted faults and the museum) and keeps all that was recorded, tensors too, below CORPUS
    tests/selftest/gate.py compare BEFORE AFTER CORPUS [--signed FILE] [--out FILE]
        BEFORE and AFTER are two programs; each judges a copy of CORPUS

A row is a verdict of a check, or a finding: case, check, verdict; or case, code, variant, place, role and what it follows from. Sentences are
no part of it. FILE of --signed is a list of {"case": ..., "row": ..., "because": ...}, where case and row may end in "*". Exit 0: the rows
are equal, or each that differs is signed; 1: one is not; 3: a program could not judge the corpus."""

import argparse
import collections
import fnmatch
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MINUTES = 25  # for the judgements of one program


def scenario_files(asked):
    files = []
    for path in asked or [os.path.join(ROOT, "scenarios", folder) for folder in ("faults", "museum")]:
        files += sorted(glob.glob(os.path.join(path, "**", "*.yaml"), recursive=True)) if os.path.isdir(path) else [path]
    return files


def in_part(path, part):
    """Drawn by the name, so that a file stays in its part."""
    number, parts = (int(word) for word in part.split("/"))
    return int(hashlib.sha256(os.path.basename(path).encode()).hexdigest(), 16) % parts == number - 1


def make(options):
    os.makedirs(options.corpus, exist_ok=True)
    database = os.path.abspath(os.path.join(options.corpus, "runs.db"))
    for path in scenario_files(options.scenarios):
        if not in_part(path, options.part):
            continue
        words = [options.program, "run", path, "--keep", "--quiet", "--db", database]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        print(done.returncode, os.path.basename(path), flush=True)


def copied(corpus, folder):
    """Tensors are linked: a judge only reads them. What it may write to is copied."""
    for where, _, names in os.walk(corpus):
        there = os.path.join(folder, os.path.relpath(where, corpus))
        os.makedirs(there, exist_ok=True)
        for name in names:
            if name.startswith("runs.db"):
                continue
            take = os.link if name.endswith(".safetensors") else shutil.copy2
            take(os.path.join(where, name), os.path.join(there, name))


def place_of(site):
    """Without what is told of it for people."""
    return {key: value for key, value in site.items() if key != "detail" and value not in (None, "", [])}


def rows_of(case, judgement):
    yield case, "outcome", judgement["outcome"]
    for verdict in judgement["verdicts"]:
        yield case, "check " + verdict["check"], verdict["verdict"]
    of_number = {finding["number"]: finding["code"] for finding in judgement["findings"]}
    for finding in judgement["findings"]:
        place = json.dumps(place_of(finding["site"]), sort_keys=True)
        follows = of_number.get(finding.get("follows", 0), "")
        yield case, f"finding {finding['code']}/{finding.get('variant', '')} {place}", f"{finding['role']} {follows}".strip()


def judged(program, corpus):
    """Every row, as often as it is there."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(corpus))) as folder:
        copied(corpus, folder)
        database = os.path.join(folder, "judged.db")
        rows = collections.Counter()
        for run in sorted(glob.glob(os.path.join(folder, "runs", "*"))):
            made = subprocess.run([program, "db", "rebuild", run, "--db", database], capture_output=True, text=True, check=False)
            name = os.path.basename(run)
            words = [program, "judge", name, "--db", database]
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=MINUTES * 60)
            if made.returncode != 0 or "CANNOT JUDGE" in done.stderr:
                print(f"{program}: {name}: {made.stderr}{done.stderr}", file=sys.stderr)
                sys.exit(3)
            for path in sorted(glob.glob(os.path.join(run, "*", "verdicts.jsonl"))):
                with open(path, encoding="utf-8") as file:
                    last = file.readlines()[-1]
                case = f"{name}/{os.path.basename(os.path.dirname(path))}"
                rows.update(rows_of(case, json.loads(last)["says"]))
        return rows


def signed_by(signatures, case, row):
    for one in signatures:
        if fnmatch.fnmatchcase(case.split("/", 1)[1], one["case"]) and fnmatch.fnmatchcase(row, one["row"].replace("[", "[[]")):
            return one["because"]
    return ""


def compare(options):
    signatures = []
    if options.signed:
        with open(options.signed, encoding="utf-8") as file:
            signatures = json.load(file)
    before, after = judged(options.before, options.corpus), judged(options.after, options.corpus)
    if not before:
        print("the corpus holds no judgement", file=sys.stderr)
        return 3
    changed, unsigned = [], 0
    for case, row, value in sorted((before - after) + (after - before)):
        because = signed_by(signatures, case, row)
        unsigned += not because
        side = "before" if (before - after)[(case, row, value)] else "after"
        changed.append({"case": case, "row": row, side: value, "because": because})
        print(f"{side:6} {case}  {row}: {value}  {'signed: ' + because if because else 'NOT SIGNED'}")
    print(f"{sum(before.values())} rows before, {sum(after.values())} after, {len(changed)} changed, {unsigned} of them not signed")
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(changed, file, indent=1)
    return 1 if unsigned else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    making = verbs.add_parser("make")
    making.add_argument("program")
    making.add_argument("corpus")
    making.add_argument("--scenarios", nargs="*", default=[])
    making.add_argument("--part", default="1/1")
    comparing = verbs.add_parser("compare")
    comparing.add_argument("before")
    comparing.add_argument("after")
    comparing.add_argument("corpus")
    comparing.add_argument("--signed")
    comparing.add_argument("--out")
    options = parser.parse_args()
    return make(options) if options.verb == "make" else compare(options)


if __name__ == "__main__":
    sys.exit(main())
