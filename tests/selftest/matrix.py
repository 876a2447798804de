#!/usr/bin/env python3
"""Faults in scenarios that are not their own: is each named there by the code that its own file expects?

    tests/selftest/matrix.py NSA_HARNESS [--in NAME]... [--only FAULT]... [--jobs 1] [--keep FILE]

Every training fault of scenarios/faults that needs no card, with its form, is injected into a few healthy scenarios (SCENARIOS below):
`run FILE --set fault={name: ..}`. A table tells for each fault and scenario what was found. Exit 1 where a fault was named wrongly
or not noticed.

  named      every cause that was told has a code that the fault's file expects
  also       so has one, and another cause was told beside it
  OTHER      no cause has such a code
  else       the same, and no check that gives such a code is asked for
  UNNOTICED  it took part, and every check passed
  -          it did not take part: nothing there that it could spoil; or the scenario asks no check that could tell
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import fault_table

ROOT = pathlib.Path(__file__).resolve().parents[2]
# name: which cell of its matrix, what of it is changed. Small: a case takes a second or two.
SCENARIOS = {
    "ddp_onestep": ([], ["model={use: toy, n_layers: 2, n_sel: 4, w: 32}", "training.seq_len=160", "training.steps=3"]),
    "loader": (["training.data={source: text}", "training.accumulate=3"], []),
    "dropout": (["training.precision=bf16", "parallel.checkpoint.layers=all"], []),
    "overflow": ([], []),
}
# What else names a fault rightly: {fault: (code, why)}, whatever the scenario.
ALSO_RIGHT = {
    "bf16_params": ("OPT.UPDATE_WRONG", "at the optimiser; its law tells that p is kept narrow"),
    "bypass_wrapper": ("ROUTE.MISMATCH", "grad_sync never ran"),
    "data_moved": ("DATA.SOURCE", "where a twin draws the batches too, it tells first"),
    "fp16_params": ("OPT.UPDATE_WRONG", "at the optimiser; its law tells that p is kept narrow"),
    "gate_collapsed": ("INIT.WRONG", "it begins with other values"),
    "gate_zero_init": ("INIT.WRONG", "it begins with other values"),
    "average_missing": ("NUMERIC.GRADIENT", "at the reduction; its law tells the factor"),
    "averaged_twice": ("NUMERIC.GRADIENT", "at the reduction; its law tells the factor"),
    "reduce_low_precision": ("NUMERIC.GRADIENT", "at the reduction; its law tells the digits"),
    "loader_repeats": ("DATA.WRONG", "by the oracle where nobody else reads the data"),
    "random_local_data": ("DATA.WRONG", "by the oracle where nobody else reads the data"),
    "no_learning": ("OPT.UPDATE_WRONG", "at the optimiser; its law tells that p stays"),
    "state_diverged": ("OPT.UPDATE_WRONG", "at the optimiser of the rank"),
    "unshifted_labels": ("LOSS.WRONG", "the loss itself; its law tells the shift"),
    "select_rank_differs": ("SELECTION.WRONG", "of the rank that chooses otherwise"),
    "data_exhausted": ("CRASH.EXCEPTION", "one rank alone has no peer to leave"),
    "rank_graph": ("NUMERIC.FORWARD", "the branch that one rank leaves out"),
}
NO_ATTENTION = ["loader", "overflow"]  # it is judged elsewhere
WAYS = ["name", "form", "strength"]  # of a fault; where and when is drawn


class Fault:
    def __init__(self, path):
        text = path.read_text()
        self.parts = fault_table.parts_of(fault_table.value_of(text, "fault"))
        self.name = " ".join(filter(None, [self.parts["name"], self.parts.get("form")]))
        self.codes = set(fault_table.parts_of(fault_table.value_of(text, "expect")).get("code", "").split(" or "))
        self.is_small = fault_table.value_of(text, "kind") == "training" and not re.search(r"^requires:.*gpus", text, re.M)

    def planted(self):
        return "{" + ", ".join(f"{way}: {self.parts[way]}" for way in WAYS if way in self.parts) + "}"


def faults():
    """By name and form; a fault that has several files expects any of their codes."""
    all_of = {}
    for path in sorted((ROOT / "scenarios/faults").glob("*.yaml")):
        fault = Fault(path)
        if not fault.is_small:
            continue
        all_of.setdefault(fault.name, fault).codes.update(fault.codes)
    return list(all_of.values())


def checks_that_give(code):
    section = (ROOT / "docs/codes.md").read_text().partition(f"### {code}\n")[2]
    return set(re.search(r"^- given by: (.*)$", section, re.M).group(1).split(", "))


def could_tell(fault, name):
    asked = set(re.findall(r"\w+", fault_table.value_of((ROOT / f"scenarios/{name}.yaml").read_text(), "checks")))
    given = set().union(*(checks_that_give(code) for code in fault.codes))
    return bool(asked & given) and not ("layers" in fault.parts and name in NO_ATTENTION)


def place(site):
    kept = {key: site[key] for key in ("op", "branch", "layers", "ranks", "step", "param") if key in site}
    return " ".join(f"{key} {value}" for key, value in kept.items())


def run(program, fault, name):
    """What was said, and the causes as texts."""
    cell, changes = SCENARIOS[name]
    with tempfile.TemporaryDirectory() as folder:
        words = [word for axis in cell for word in ("--only", axis)]
        words += [word for change in [*changes, "fault=" + fault.planted()] for word in ("--set", change)]
        done = subprocess.run([program, "run", f"{ROOT}/scenarios/{name}.yaml", *words, "--profile", "base", "--json", "--quiet",
                               "--db", f"{folder}/db", "--out", folder], capture_output=True, text=True, timeout=300)
    try:
        case = json.loads(done.stdout)["cases"][0]
    except (json.JSONDecodeError, KeyError, IndexError):
        return "-", ["not run: " + " ".join(done.stderr.split())[-160:]]
    causes = [one for one in case.get("findings", []) if one["role"] == "initiating"]
    if any("Error: fault: " in one["statement"] for one in causes):
        return "-", ["the fault needs another scenario"]
    told = [f"{one['code']} @ {place(one['site'])}" for one in causes]
    if not causes:
        reason = case.get("reason") or ""
        unnoticed = "no check noticed" in reason and could_tell(fault, name)
        return "UNNOTICED" if unnoticed else "-", [f"{case['outcome']}: {reason[:160]}"]
    right = fault.codes | set(ALSO_RIGHT.get(fault.parts["name"], [])[:1])
    wrong = [one for one in causes if one["code"] not in right]
    if len(wrong) < len(causes):
        return "also" if wrong else "named", told
    return "OTHER" if could_tell(fault, name) else "else", told


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--in", dest="names", action="append", choices=list(SCENARIOS))
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, help="a JSON file of all cells")
    options = parser.parse_args()
    wanted = [fault for fault in faults() if not options.only or fault.parts["name"] in options.only]
    cells = [(fault, name) for fault in wanted for name in options.names or SCENARIOS]
    counts = {}
    kept = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = pool.map(lambda cell: run(options.program, *cell), cells)
        print("| fault | scenario | | found | expected |\n| --- | --- | --- | --- | --- |")
        for (fault, name), (said, told) in zip(cells, results):
            counts.setdefault(name, {}).setdefault(said, []).append(fault.name)
            kept.append({"fault": fault.name, "scenario": name, "said": said, "told": told, "expected": sorted(fault.codes)})
            expected = "" if said == "named" else " or ".join(sorted(fault.codes))
            print(f"| {fault.name} | {name} | {said} | {'; '.join(told)} | {expected} |", flush=True)
    for name, said in counts.items():
        print(f"\n{name}: " + ", ".join(f"{len(names)} {what}" for what, names in sorted(said.items())))
    if options.keep:
        options.keep.write_text(json.dumps(kept, indent=1))
    bad = [what for said in counts.values() for what in said if what in ("OTHER", "UNNOTICED")]
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
