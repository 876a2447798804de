#!/usr/bin/env python3
"""What the levels of observation cost, beside the same steps without the harness.

    tests/bench/observe.py PROGRAM TOOL OUT [--rounds N] [--device cpu|cuda] [--steps N] [--levels 0,1,2] [--set PATH=VALUE]...
    tests/bench/observe.py PROGRAM TOOL OUT --instructions [...]

PROGRAM is nsa-harness, TOOL the built observe_cost. Every round launches, in turn and each as a process of its own: the plain steps,
the levels, and the plain steps again, which is the A/A pair. The order is turned from round to round. The time of
a launch is the median of its steps. Two costs: the ratio to the mean of the round's two plain times, as median over the rounds with
quartiles; and the ratio of the lower quartiles over all launches, which a busy machine moves less. Processor time on a CPU, wall time on
a card; operators of a step from launches of their own. Writes OUT/observe.json and OUT/observe.md.

--instructions counts the processor instructions of a step instead, which no other load on the machine changes: each variant runs twice
under valgrind's callgrind, with a few steps and with ten more; the difference is ten steps'. Needs valgrind; some minutes a variant.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

TIMEOUT_S = 1200
FEW_STEPS, MORE_STEPS = 5, 10


def case_of(program, out, kind, device, sets):
    """The case of a short run, with its text beside it."""
    scenario = out / f"observe_{kind}.yaml"
    cards = "requires: {gpus: 1}\n" if device == "cuda" else ""
    scenario.write_text(
        f"version: 1\nscenario: observe_{kind}\nkind: {kind}\n"
        "model: {use: toy, n_layers: 3, n_sel: 4, w: 32}\n"
        f"training: {{steps: 4, batch_size: 2, seq_len: 512, precision: fp32}}\n"
        f"parallel: {{ranks: 1, device: {device}}}\n{cards}checks: [process_clean]\n")
    words = [program, "run", str(scenario), "--quiet", "--db", str(out / "runs.db"), "--profile", "base"]
    for value in sets:
        words += ["--set", value]
    report = subprocess.run(words, check=True, capture_output=True, text=True, timeout=TIMEOUT_S).stdout.split()[-1]
    return next(pathlib.Path(report).parent.glob("01_*/case.json"))


def variant(case, steps, observe, folder):
    """The case at another level, in a folder of its own."""
    content = json.loads(case.read_text())
    content["scenario"]["training"]["steps"] = steps
    content["scenario"].pop("observe", None)
    if observe in ("0", "1"):
        content["scenario"]["observe"] = int(observe)
    # Values are recorded for checks that ask for them: those of scenarios/ddp_onestep.yaml.
    content["scenario"]["checks"] = [
        "gradients_arrived", "gradients_agree", "matches_twin", "collectives_agree", "parameters_agree", "data_distinct",
        "close_to_oracle", "exercised", "finite", "optimizer_sound", "ran_route", "process_clean", "progress"]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "case.json"
    path.write_text(json.dumps(content))
    return path


def launch(tool, path, mode, count=False, under=()):
    """One process; its rows go where nobody keeps them, through a pipe as in a run. Gives what it printed on both streams."""
    words = [*under, tool, str(path), mode] + (["count"] if count else [])
    drain = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    actions = f"exec 3>&{drain.stdin.fileno()}; exec \"$@\""
    try:
        # One thread: those that wait for each other on a busy machine use processor time that is no step's.
        told = subprocess.run(["bash", "-c", actions, "bash"] + words, check=True, capture_output=True, text=True,
                              timeout=TIMEOUT_S, pass_fds=[drain.stdin.fileno()], env=dict(os.environ, OMP_NUM_THREADS="1"))
    except subprocess.CalledProcessError as error:
        sys.exit(f"{' '.join(words)}: {error.stderr}")
    finally:
        drain.stdin.close()
        drain.wait()
    return told.stdout, told.stderr


def instructions_of(arguments, case, out, name):
    """Of one step, in the process that runs it."""
    mode = "plain" if name == "plain" else "harness"
    counted = []
    for steps in (FEW_STEPS, FEW_STEPS + MORE_STEPS):
        path = variant(case, steps, name, out / f"instructions_{name}")
        profile = path.parent / "callgrind.out"
        _, log = launch(arguments.tool, path, mode, under=["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}"])
        counted.append(int(re.search(r"Collected : (\d+)", log)[1]))
    return (counted[1] - counted[0]) / MORE_STEPS


def count_instructions(arguments, case, out):
    found = {name: instructions_of(arguments, case, out, name) for name in ("plain", *arguments.levels)}
    return {name: [round(count), percent(count / found["plain"])] for name, count in found.items()}


def quartiles(values):
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"low": low, "median": middle, "high": high}


def measure(arguments, case, out, time_of):
    watched = ["plain", *arguments.levels, "plain again"]

    def one(name, folder, count=False):
        mode = "plain" if name.startswith("plain") else "harness"
        path = variant(case, arguments.steps, name, out / folder)
        told = json.loads(launch(arguments.tool, path, mode, count)[0].strip().splitlines()[-1])
        for tensors in (out / folder).glob("rank_0"):
            subprocess.run(["rm", "-rf", str(tensors)], check=True)
        return told

    counted = [] if arguments.without_operators else watched[:-1]
    operators = {name: one(name, "counted", True)["operators"] for name in counted}
    times = {name: [] for name in watched}
    for number in range(arguments.rounds):
        turned = watched[number % len(watched):] + watched[:number % len(watched)]
        for name in turned:
            times[name].append(statistics.median(one(name, "timed")[time_of]))
    plain = [(a + b) / 2 for a, b in zip(times["plain"], times["plain again"])]
    costs = {f"level {name}": quartiles([x / y for x, y in zip(times[name], plain)]) for name in arguments.levels}
    costs["plain / plain"] = quartiles([b / a for a, b in zip(times["plain"], times["plain again"])])
    base = quartiles(times["plain"] + times["plain again"])["low"]
    for name in arguments.levels:
        costs[f"level {name}"]["of lower quartiles"] = quartiles(times[name])["low"] / base
    costs["plain / plain"]["of lower quartiles"] = quartiles(times["plain again"])["low"] / quartiles(times["plain"])["low"]
    return {"operators": operators, "ms": {name: statistics.median(values) for name, values in times.items()},
            "costs": costs}


def percent(ratio):
    return f"{100 * (ratio - 1):+.2f} %"


def page_of(found, arguments):
    what = "wall time" if arguments.device == "cuda" else "processor time"
    lines = [f"# What watching costs: {what} of a step, {arguments.rounds} rounds of {arguments.steps} steps",
             "", "| kind | | ms a step | cost: median (quartiles) | of lower quartiles | operators a step |",
             "| --- | --- | --- | --- | --- | --- |"]
    for kind, one in found.items():
        for name in ("plain", *arguments.levels):
            label = "plain / plain" if name == "plain" else f"level {name}"
            cost = one["costs"][label]
            lines.append(f"| {kind} | {label} | {one['ms'][name]:.2f} | "
                         f"{percent(cost['median'])} ({percent(cost['low'])} to {percent(cost['high'])}) | "
                         f"{percent(cost['of lower quartiles'])} | "
                         f"{one['operators'].get(name, '')} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("tool")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=43)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--levels", type=lambda text: text.split(","), default=["0", "1", "2"])
    parser.add_argument("--without-operators", action="store_true", help="saves the launches that count them")
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--set", action="append", default=[], dest="sets")
    arguments = parser.parse_args()
    arguments.out = arguments.out.resolve()
    arguments.out.mkdir(parents=True, exist_ok=True)
    found = {}
    for kind in ("training", "throughput"):
        case = case_of(arguments.program, arguments.out, kind, arguments.device, arguments.sets)
        if arguments.instructions:
            found[kind] = count_instructions(arguments, case, arguments.out / kind)
            page = "".join(f"{kind}, {name}: {count:,} instructions a step, {cost}\n" for name, (count, cost) in found[kind].items())
        else:
            time_of = "wall_ms" if arguments.device == "cuda" else "cpu_ms"
            found[kind] = measure(arguments, case, arguments.out / kind, time_of)
            page = page_of(found, arguments)
            (arguments.out / "observe.md").write_text(page)
        print(page, flush=True)
    (arguments.out / "observe.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
