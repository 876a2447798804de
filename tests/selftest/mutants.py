#!/usr/bin/env python3
"""Does the harness notice bugs that nobody planted for it? One binary holds many small bugs ("mutants"), each in one line of
the model, the training step or the worker; the variable TORCH_NSA_MUTANT switches one
of them on, or several with commas between them: the harness hands variables that begin with TORCH_ to its workers.

    tests/selftest/mutants.py fit           does every mutant fit the sources?
    tests/selftest/mutants.py make DIR      a copy of this tree in DIR with all mutants in it
    (build DIR: target harness/all, preset full)
    tests/selftest/mutants.py run DIR       coverage, then every mutant against the scenarios that reach its line
    tests/selftest/mutants.py judge DIR     judges what `run --keep` recorded once more: after an edit of the judge
    tests/selftest/mutants.py report DIR    the score, by folder; survivors; wrong names and wrong accusations
    tests/selftest/mutants.py pairs DIR     20 drawn pairs that the same run finds one by one: are both named together?

`run` adds a line to DIR/mutants/results.jsonl for each mutant and goes on where it stopped. The mutants are in
tests/selftest/mutants/*.txt; mutant_list.py says how they are written, mutant_pairs.py which pairs count.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import queue
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import mutant_list
import mutant_pairs
from mutant_report import findings, read_results, report

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = """// Switches of the mutants. This file exists only in a copy made by tests/selftest/mutants.py.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
namespace nsa_mutants {
// Is this mutant switched on? Also tells that its line was reached, where TORCH_NSA_REACHED names a file.
inline bool is(const char* name) {
  if (const char* path = std::getenv("TORCH_NSA_REACHED")) {
    if (FILE* file = std::fopen(path, "a")) {
      std::fprintf(file, "%s\\n", name);
      std::fclose(file);
    }
  }
  const char* chosen = std::getenv("TORCH_NSA_MUTANT");
  return chosen != nullptr &&
         ("," + std::string(chosen) + ",").find("," + std::string(name) + ",") != std::string::npos;
}
// Of this worker; the twin has -1.
inline int rank() {
  static const int number = [] {
    std::ifstream file("/proc/self/cmdline");
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    const std::string word = std::string("\\0--rank", 7) + '\\0';
    const auto at = line.find(word);
    return at == std::string::npos ? -1 : std::atoi(line.c_str() + at + word.size());
  }();
  return number;
}
}  // namespace nsa_mutants
#define MUTANT(name) \\
  ([] { static const bool on = nsa_mutants::is(name); return on; }())
"""
FOUND = ("FAIL", "HANG", "CRASH", "OOM")  # a busy machine is SLOW by itself


def make(folder, mutants):
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        write_changed(folder / name, (ROOT / name).read_bytes())
    by_file = collections.defaultdict(list)
    for mutant in mutants:
        by_file[mutant.file].append(mutant)
    for name, here in by_file.items():
        text = mutant_list.mutated((ROOT / name).read_text(), here)
        write_changed(folder / name, ('#include "nsa/mutants.h"\n' + text).encode())
    write_changed(folder / "nsa/mutants.h", HEADER.encode())
    print(f"{len(mutants)} mutants in {len(by_file)} files of {folder}")


def write_changed(path, content):
    """Writes only what is new, so that a build compiles only that."""
    if path.exists() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    if content.startswith(b"#!"):
        path.chmod(0o755)


class Harness:
    """The built copy. A run is a line of tests/selftest/mutants/runs: a scenario and the options that choose its cases."""

    def __init__(self, folder, program=None, pinned_jobs=0):
        self.folder = folder
        self.program = program or folder / "build/full/bin/nsa-harness"
        self.cores = queue.SimpleQueue()  # of pairs of processors, one pair a job
        self.is_pinned = pinned_jobs > 0
        processors = sorted(os.sched_getaffinity(0))
        for job in range(pinned_jobs):
            self.cores.put(f"{processors[2 * job]},{processors[2 * job + 1]}")

    def run(self, words, limit_s, record=None, **variables):
        """The cases of the run as the harness tells them; None when it did not end in time. Its record stays in the folder
        `record`."""
        if record is None:
            with tempfile.TemporaryDirectory(dir=self.folder / "mutants") as out:
                return self.run(words, limit_s, out, **variables)
        shutil.rmtree(record, ignore_errors=True)
        words = ["run", *words, "--db", f"{record}/r.db", "--out", str(record), "--quiet", "--json"]
        if not self.is_pinned:
            return self.told([self.program, *words], limit_s, variables)
        cores = self.cores.get()
        try:
            return self.told(["taskset", "--cpu-list", cores, self.program, *words], limit_s, variables)
        finally:
            self.cores.put(cores)

    def judge(self, record):
        """The cases of a run whose record was kept, judged by this program."""
        return self.told([self.program, "judge", "last", "--db", f"{record}/r.db", "--json"], 300, {})

    def told(self, line, limit_s, variables):
        environment = {**os.environ, "NSA_HARNESS_TREE": str(self.folder), **variables}
        process = subprocess.Popen(line, cwd=self.folder, env=environment, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        try:
            told, errors = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # it ends its workers and then itself
            try:
                process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
            return None
        if not told.strip():
            return [{"outcome": "ERROR", "reason": errors[-300:], "verdicts": []}]
        return json.loads(told)["cases"]


def cover(harness, runs, jobs):
    """How long each run takes without a mutant, and which mutants' lines it reaches."""
    kept = harness.folder / "mutants/coverage.json"
    coverage = json.loads(kept.read_text()) if kept.exists() else {}

    def one(line):
        with tempfile.NamedTemporaryFile("r", dir=harness.folder / "mutants") as reached:
            begin = time.monotonic()
            cases = harness.run(shlex.split(line), 300, TORCH_NSA_REACHED=reached.name)
            seconds = time.monotonic() - begin
            names = sorted(set(reached.read().split()))
        outcomes = sorted({case["outcome"] for case in cases or [{"outcome": "no end"}]})
        print(f"{seconds:6.1f} s  {len(names):3} mutants  {' '.join(outcomes)}  {line}", flush=True)
        return {"seconds": round(seconds, 1), "outcomes": outcomes, "reached": names}

    todo = [line for line in runs if line not in coverage]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for line, found in zip(todo, pool.map(one, todo)):
            coverage[line] = found
            kept.write_text(json.dumps(coverage, indent=1))
    return {line: coverage[line] for line in runs if coverage[line]["outcomes"] == ["PASS"]}


def records(folder):
    return folder / "mutants/records"


def judge(harness, given):
    """Of every run whose record was kept, what this program finds in it."""
    kept = harness.folder / "mutants/results.jsonl"

    def one(result):
        record = records(harness.folder) / result["name"]
        if result["runs"] and record.exists():
            cases = harness.judge(record)
            result["findings"] = findings(cases)
            is_found = any(case["outcome"] in FOUND for case in cases)
            result["outcome"] = "found" if is_found else "lost" if result["outcome"] == "found" else result["outcome"]
        return json.dumps(result) + "\n"

    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        lines = list(pool.map(one, read_results(kept)))
    kept.write_text("".join(lines))


def count(tally, line, file, outcomes):
    """Adds one run of a mutant of this file to (tried, found); True when something was found."""
    is_found = bool(set(outcomes) & set(FOUND))
    tried, found = tally[line, file]
    tally[line, file] = (tried + 1, found + is_found)
    return is_found


def attempt(harness, mutant, coverage, tally, given):
    """Runs what reaches the mutant until something is found: cheapest first, where those count as cheap that found much in
    the same file so far. `tally`: (tried, found) of each run and file."""
    def price(line):
        tried, found = tally[line, mutant.file]
        return coverage[line]["seconds"] * (tried + 1) / (found + 0.5)

    reaching = sorted((line for line in coverage if mutant.name in coverage[line]["reached"]), key=price)
    result = {"name": mutant.name, "outcome": "survived" if reaching else "unreached", "runs": [], "findings": []}
    begin = time.monotonic()
    for line in reaching:
        left = given.seconds - (time.monotonic() - begin)
        if left < coverage[line]["seconds"]:
            result["outcome"] = "out of time" if result["outcome"] == "survived" else result["outcome"]
            break
        record = records(harness.folder) / mutant.name if given.keep else None
        cases = harness.run(shlex.split(line), left, record, TORCH_NSA_MUTANT=mutant.name)
        if cases is None:
            result["outcome"] = "out of time"
            break
        outcomes = sorted({case["outcome"] for case in cases})
        result["runs"].append([line, outcomes])
        if count(tally, line, mutant.file, outcomes):
            result["outcome"] = "found"
            result["findings"] = findings(cases)
            break
        if outcomes != ["PASS"]:
            result["outcome"] = "unclear"  # noticed, but nothing is named; another run may do better
            result["reason"] = [case.get("reason") for case in cases][:3]
    result["seconds"] = round(time.monotonic() - begin, 1)
    return result


def run(harness, mutants, given):
    runs = (mutant_list.FOLDER / "runs").read_text().splitlines()
    coverage = cover(harness, runs, given.jobs)
    kept = harness.folder / "mutants/results.jsonl"
    files = {mutant.name: mutant.file for mutant in mutants}
    tally = collections.defaultdict(lambda: (0, 0))
    done = read_results(kept)
    for result in done:
        for line, outcomes in result["runs"]:
            count(tally, line, files.get(result["name"]), outcomes)
    names = {result["name"] for result in done}
    todo = [mutant for mutant in mutants if mutant.name not in names]
    random.Random(1).shuffle(todo)  # whatever is done when time is over is a drawn sample
    todo.sort(key=lambda mutant: not mutant.folder.startswith(given.first))
    end = time.monotonic() + 60 * given.minutes

    def one(mutant):
        return attempt(harness, mutant, coverage, tally, given) if time.monotonic() < end else None

    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        for result in pool.map(one, todo):
            if result is None:
                continue
            with kept.open("a") as file:
                file.write(json.dumps(result) + "\n")
            print(f"{result['seconds']:6.1f} s  {result['outcome']:11}  {result['name']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["fit", "make", "run", "judge", "report", "pairs"])
    parser.add_argument("folder", type=pathlib.Path, nargs="?", help="outside this tree")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1, help="of the drawn pairs")
    parser.add_argument("--pin", action="store_true", help="each job gets two processors of its own")
    parser.add_argument("--program", type=lambda path: pathlib.Path(path).resolve(), help="nsa-harness of an installed copy, not that of DIR/build/full")
    parser.add_argument("--keep", action="store_true", help="the records, for `judge`: up to 50 MiB each; `pairs` judges what it kept")
    parser.add_argument("--first", default="", help="mutants of the files that begin so are run first")
    parser.add_argument("--seconds", type=float, default=90, help="for one mutant, all scenarios together")
    parser.add_argument("--minutes", type=float, default=24 * 60, help="no mutant is begun after so many")
    given = parser.parse_args()
    mutants = mutant_list.read()
    if given.verb == "fit":
        for mutant in mutants:
            mutant.where((ROOT / mutant.file).read_text())
        return
    if given.folder is None:
        parser.error("FOLDER is missing")
    folder = given.folder.resolve()
    (folder / "mutants").mkdir(parents=True, exist_ok=True)

    def harness():
        return Harness(folder, given.program, given.jobs if given.pin else 0)

    if given.verb == "make":
        make(folder, mutants)
    elif given.verb == "run":
        run(harness(), mutants, given)
    elif given.verb == "judge":
        judge(harness(), given)
    elif given.verb == "pairs":
        mutant_pairs.pairs(harness(), mutants, given)
    else:
        report(folder, mutants)


if __name__ == "__main__":
    main()
