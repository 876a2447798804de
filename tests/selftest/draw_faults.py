#!/usr/bin/env python3
"""Runs every planted fault of scenarios/faults with drawn layers, strengths and seeds, and counts what was said of it.

    tests/selftest/draw_faults.py NSA_HARNESS [--draws 3] [--seed 1] [--only NAME,NAME] [--kind attention]

Detected: the case failed. Code: the initiating finding has the preferred code (an alternative after "or" counts half).
Site: every key of the scenario's expect.site is what was drawn or written. One line a draw, then the rates.
"""
import argparse
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

# The last layer is not a site: it is what others are recomputed with, or has no layer after it.
NOT_IN_THE_LAST_LAYER = {"gc_late_binding", "gc_late_binding_nested", "inplace_pack"}
STRENGTHS = [1.0, 0.3, 0.1, 0.03]  # share of rows; a fault that has none ignores it


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--kind", default="")
    return parser.parse_args()


def field(text, pattern, default=None):
    found = re.search(pattern, text, re.M)
    return found.group(1) if found else default


class Fault:
    def __init__(self, path):
        self.path = path
        text = path.read_text()
        self.name = path.stem
        self.kind = field(text, r"^kind: (\w+)")
        self.uses_layers = bool(field(text, r"^fault: \{.*(layers: \[)"))
        self.layer = field(text, r"^fault: \{.*layers: \[(\d+)\]")
        fault = field(text, r"^fault: (\{.*\})", "")
        self.uses_rank, self.uses_step = "rank:" in fault, "step:" in fault
        self.ranks = int(field(text, r"ranks: (\d+)", "1"))
        self.steps = int(field(text, r"^(?:training: \{.*?|  )steps: (\d+)", "1"))
        self.first_step = int(field(fault, r"step: (\d+)", "1"))
        self.site_ranks = "ranks:" in (field(text, r"^expect: (.*)$", ""))
        self.site_step = bool(re.search(r"[{ ]step: ", field(text, r"^expect: (.*)$", "")))
        self.n_layers = int(field(text, r"n_layers: (\d+)", "12"))
        self.codes = field(text, r"code: ([A-Z_.]+(?: or [A-Z_.]+)*)", "").split(" or ")
        site = field(text, r"site: (\{.*\})\s*\}", "{}")
        self.site = dict(re.findall(r"(branch|op|param|step): (\w+)", site))
        self.site_layers = "layers:" in site


def draw(fault, random_numbers):
    sets = {"fault.seed": random_numbers.randrange(1000), "seed": random_numbers.randrange(1000)}
    layer = None
    if fault.uses_layers:
        layer = random_numbers.randrange(fault.n_layers - (fault.name in NOT_IN_THE_LAST_LAYER))
        sets["fault.layers"] = f"[{layer}]"
        if fault.site_layers:
            sets["expect.site.layers"] = f"[{layer}]"
    if fault.uses_rank:
        rank = random_numbers.randrange(fault.ranks)
        sets["fault.rank"] = str(rank)
        if fault.site_ranks:
            sets["expect.site.ranks"] = f"[{rank}]"
    if fault.uses_step and fault.first_step > 1:
        step = random_numbers.randrange(fault.first_step, fault.steps + 1)
        sets["fault.step"] = str(step)
        if fault.site_step:
            sets["expect.site.step"] = str(step)
    sets["fault.strength"] = random_numbers.choice(STRENGTHS)
    return sets, layer


def run(program, fault, sets):
    with tempfile.TemporaryDirectory() as folder:
        words = [program, "run", str(fault.path), "--db", folder + "/r.db", "--quiet", "--json"]
        for key, value in sets.items():
            words += ["--set", f"{key}={value}"]
        begin = time.time()
        done = subprocess.run(words, capture_output=True, text=True, timeout=600)
        if "does not heed it" in done.stderr:  # of a fault without a strength
            at = words.index(next(word for word in words if word.startswith("fault.strength")))
            words = words[:at - 1] + words[at + 1:]
            done = subprocess.run(words, capture_output=True, text=True, timeout=600)
        try:
            return json.loads(done.stdout)["cases"][0], done.returncode, time.time() - begin
        except (ValueError, KeyError, IndexError):
            return {"outcome": "NONE", "reason": done.stderr[-200:], "findings": []}, done.returncode, time.time() - begin


def site_right(fault, site, layer, sets):
    if fault.site_layers and layer is not None and site.get("layers") != [layer]:
        return False
    if "expect.site.ranks" in sets and str(site.get("ranks")) != sets["expect.site.ranks"]:
        return False
    wanted = dict(fault.site)
    if "expect.site.step" in sets:
        wanted["step"] = sets["expect.site.step"]
    return all(str(site.get(key)) == value for key, value in wanted.items())


def main():
    options = arguments()
    numbers = random.Random(options.seed)
    folder = pathlib.Path(__file__).resolve().parents[2] / "scenarios/faults"
    faults = [Fault(path) for path in sorted(folder.glob("*.yaml"))]
    wanted = set(filter(None, options.only.split(",")))
    faults = [f for f in faults if (not wanted or f.name in wanted) and options.kind in ("", f.kind)]
    all_draws = detected = code = site = 0
    for fault in faults:
        for _ in range(options.draws):
            sets, layer = draw(fault, numbers)
            case, exit_code, seconds = run(options.program, fault, sets)
            if case["outcome"] == "SKIP":  # a fault of a card, where there is none
                print(f"left out: {fault.name}: {case['reason']}", flush=True)
                break
            first = next((f for f in case["findings"] if f["role"] == "initiating"), None) or next(iter(case["findings"]), {})
            found = first.get("code", "-")
            is_detected = bool(case["findings"]) and exit_code in (0, 1)
            code_share = 1.0 if found == fault.codes[0] else 0.5 if found in fault.codes else 0.0
            is_site = code_share > 0 and site_right(fault, first.get("site", {}), layer, sets)
            all_draws += 1
            detected += is_detected
            code += code_share
            site += is_site
            mark = "ok " if is_detected and code_share == 1 and is_site else "BAD"
            brief = {k: v for k, v in first.get("site", {}).items() if k not in ("rows", "detail")}
            print(f"{mark} {fault.name} layer={layer} rank={sets.get('fault.rank')} step={sets.get('fault.step')} strength={sets['fault.strength']} seeds={sets['fault.seed']},{sets['seed']}: "
                  f"exit {exit_code} {case['outcome']} {found} {json.dumps(brief)} {seconds:.1f}s"
                  + ("" if mark == "ok " else " | " + str(case.get("reason", ""))[:160]), flush=True)
    if all_draws == 0:
        sys.exit("no fault was run")
    print(f"{all_draws} draws of {len(faults)} faults: detected {detected / all_draws:.1%}, preferred code {code / all_draws:.1%}, "
          f"right site {site / all_draws:.1%}")


main()
