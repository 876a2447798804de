"""A plain DistributedDataParallel script (watched_script.py) under `nsa-harness run`, in six situations, without and with the two lines: is it
told what happened, on which rank, and how soon?

    watched_runs.py NSA_HARNESS OUT [--backend nccl|gloo] [--rounds N] [--parallel N] [--only SITUATION]... [--seed N] [--minutes N]

With --seed the rank and the step of each event are drawn; else it is rank 1 in step 6.

This Python's torch; nccl needs two cards. Writes OUT/watched.md, again after each run, and what each run left. Exit: 0 when everything
was right with the lines, and three of four without."""

import argparse
import collections
import concurrent.futures
import json
import os
import random
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")
# situation: outcome, codes of which the first finding must have one, whether it must name the event's rank
DESYNC = ("DESYNC.SIZE", "DESYNC.OP", "DESYNC.ORDER", "DESYNC.MISSING_RANK")
WANTED = {
    "healthy": ("PASS", (), False),
    "desync": (None, DESYNC, False),
    "hang": ("HANG", ("HANG.HOST",), True),
    "raises": ("CRASH", ("CRASH.EXCEPTION",), True),
    "killed": ("CRASH", ("CRASH.SIGNAL",), True),
    "slow": ("PASS", (), False),
}
DEADLINE_S = 120.0
Event = collections.namedtuple("Event", "rank step")
Told = collections.namedtuple("Told", "situation lines event right outcome code ranks delay_s wall_s reason")


def drawn_event(arguments, *of):
    if arguments.seed is None:
        return Event(1, 6)
    draw = random.Random(f"{arguments.seed} {of}")
    return Event(draw.randrange(2), draw.randrange(2, 36))


def environment(arguments, situation, lines, event, folder):
    variables = dict(os.environ, SITUATION=situation, BACKEND=arguments.backend, EVENT=os.path.join(folder, "event"))
    variables.update(EVENT_RANK=str(event.rank), EVENT_STEP=str(event.step))
    variables.update(OMP_NUM_THREADS="1", PYTHONPATH=PACKAGE)
    if lines:
        variables["TWO_LINES"] = "1"
    return variables


def is_right(situation, event, outcome, code, ranks):
    wanted_outcome, codes, names_rank = WANTED[situation]
    if not codes:
        return outcome == wanted_outcome and code is None
    return code in codes and wanted_outcome in (None, outcome) and (not names_rank or ranks == [event.rank])


def one(arguments, situation, lines, number):
    folder = os.path.join(arguments.out, f"{situation}_{'lines' if lines else 'plain'}_{number}")
    os.makedirs(folder)
    event = drawn_event(arguments, situation, lines, number)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", os.path.join(HERE, "watched_script.py")]
    options = ["--quiet", "--json", "--out", os.path.join(folder, "runs"), "--db", os.path.join(folder, "runs.db"), "--budget", "100"]
    begun = time.time()
    try:
        done = subprocess.run(
            [arguments.program, "run", *options, "--", *launcher],
            env=environment(arguments, situation, lines, event, folder),
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_S,
        )
        (case,) = json.loads(done.stdout)["cases"]
    except (ValueError, subprocess.TimeoutExpired) as error:
        return Told(situation, lines, event, False, "none", None, None, None, time.time() - begun, str(error))
    ended = time.time()
    first = case["findings"][0] if case["findings"] else {"code": None, "site": {}}
    ranks = first["site"].get("ranks")
    delay = None
    if situation not in ("healthy", "slow") and os.path.exists(os.path.join(folder, "event")):
        with open(os.path.join(folder, "event"), encoding="utf-8") as file:
            delay = ended - float(file.read())
    right = is_right(situation, event, case["outcome"], first["code"], ranks)
    return Told(situation, lines, event, right, case["outcome"], first["code"], ranks, delay, ended - begun, case["reason"])


def row_of(told):
    delay = "" if told.delay_s is None else f"{told.delay_s:.1f}"
    right = "yes" if told.right else "**no**"
    event = f"rank {told.event.rank}, step {told.event.step}"
    cells = [told.situation, "two lines" if told.lines else "none", event, right, told.outcome, told.code or "", str(told.ranks or ""), delay]
    return "| " + " | ".join([*cells, f"{told.wall_s:.1f}", told.reason.replace("|", "/")[:220]]) + " |"


def p95(values):
    values = sorted(values)
    return values[min(len(values) - 1, int(0.95 * len(values)))] if values else float("nan")


def summary(all_told):
    lines = []
    for with_lines in (True, False):
        mine = [told for told in all_told if told.lines == with_lines]
        right = sum(told.right for told in mine)
        lines.append(f"{'with the two lines' if with_lines else 'without'}: right {right} of {len(mine)}")
        for name, situations in {"crash and desync": ("raises", "killed", "desync"), "hang": ("hang",)}.items():
            delays = [told.delay_s for told in mine if told.situation in situations and told.delay_s is not None]
            lines.append(f"  from event to verdict, {name}: p95 {p95(delays):.1f} s of {len(delays)}")
    return "\n".join(lines)


def one_in_time(arguments, end, *job):
    return one(arguments, *job) if time.monotonic() < end else None


def text_of(all_told):
    head = "| situation | lines | event | right | outcome | code | ranks | seconds from event to verdict | seconds | reason |\n|---|---|---|---|---|---|---|---|---|---|"
    return "\n".join([head, *map(row_of, all_told), "", summary(all_told), ""])


def write(folder, all_told):
    with open(os.path.join(folder, "watched.md"), "w", encoding="utf-8") as file:
        file.write(text_of(all_told))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("out")
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--only", action="append")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--minutes", type=float, default=24 * 60, help="no run is begun after so many")
    arguments = parser.parse_args()
    arguments.program = os.path.abspath(arguments.program)
    arguments.out = os.path.abspath(arguments.out)
    jobs = [
        (situation, lines, number)
        for number in range(arguments.rounds)
        for situation in WANTED
        for lines in (False, True)
        if not arguments.only or situation in arguments.only
    ]
    end = time.monotonic() + 60 * arguments.minutes
    all_told = []
    with concurrent.futures.ThreadPoolExecutor(arguments.parallel) as pool:
        for told in concurrent.futures.as_completed([pool.submit(one_in_time, arguments, end, *job) for job in jobs]):
            if told.result() is not None:
                all_told.append(told.result())
                write(arguments.out, all_told)
    print(text_of(all_told))
    right = {lines: [told.right for told in all_told if told.lines == lines] for lines in (True, False)}
    return 0 if all(right[True]) and sum(right[False]) >= 0.75 * len(right[False]) else 1


if __name__ == "__main__":
    sys.exit(main())
