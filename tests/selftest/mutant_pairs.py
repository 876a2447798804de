"""Two mutants at once: are both named, and neither as what follows from the other? See mutants.py.

A drawn pair is two mutants of two files that the same run finds, each alone, by causes (code and operation) of its own. It counts
where the two are
 - independent: with both switched on, the lines of both are reached. Else one has switched the other off;
 - visible: the harness does not say itself that it could not judge where the other one is. One is hidden, and said to be, where
   the check that names it alone tells of the same layers and ranks what it could not judge because of the other's finding
   (`not_judged` of that finding): the same operation, the whole layer, or gradients where the cause is a gradient.
Pairs that do not count are told with the reason, and others are drawn for them. A pair counts as named where each of the two is
among the causes that are told, by code and operation. What is hidden and not said to be, or without effect, is a pair not named.
"""
import random
import shlex
import tempfile

from mutant_report import findings, initiating, read_results, said

PAIRS = 20


def ends_early(result):
    """Then nothing of a second mutant may be on record."""
    return any(finding["code"].startswith(("CRASH", "HANG", "OOM", "DESYNC")) for finding in result["findings"])


def drawn_pairs(folder, mutants, seed):
    """Mutants of two files that one run found, each with findings of its own."""
    files = {mutant.name: mutant.file for mutant in mutants}
    results = {result["name"]: result for result in read_results(folder / "mutants/results.jsonl")}
    found = [result for name, result in sorted(results.items())
             if result["outcome"] == "found" and name in files and not ends_early(result)]
    random.Random(seed).shuffle(found)
    taken = set()
    for at, first in enumerate(found):
        for second in found[at + 1:]:
            own, other = initiating(first["findings"]), initiating(second["findings"])
            apart = files[first["name"]] != files[second["name"]] and own and other and not own & other
            free = not taken & {first["name"], second["name"]}
            if apart and free and first["runs"][-1][0] == second["runs"][-1][0]:
                taken |= {first["name"], second["name"]}
                yield first, second


def shares(one, other, key):
    """Do both sites name one layer, or rank? A site that names none means all."""
    return not one.get(key) or not other.get(key) or bool(set(one[key]) & set(other[key]))


def is_said_to_be_hidden(cause, told):
    """Does a finding of `told` say that what this cause is seen by could not be judged because of it?"""
    of_gradient = cause["code"].startswith(("NUMERIC.GRADIENT", "GRAD", "CKPT"))
    for lacking in (one for finding in told for one in finding.get("not_judged", [])):
        site = lacking["site"]
        here = all(shares(site, cause["site"], key) for key in ("layers", "ranks"))
        whole = "a layer" in lacking["what"] or of_gradient and "gradient" in lacking["what"]
        same = site["op"] == cause["site"].get("op") if site.get("op") else whole
        if here and same and lacking["check"] == cause.get("check"):
            return True
    return False


def cases_of_pair(harness, first, second, keep):
    """What the run tells with both switched on, and whose lines it reached. A record that is kept is judged once more."""
    both = ",".join(one["name"] for one in (first, second))
    if not keep:
        with tempfile.NamedTemporaryFile("r", dir=harness.folder / "mutants") as reached:
            cases = harness.run(shlex.split(first["runs"][-1][0]), 300, TORCH_NSA_REACHED=reached.name, TORCH_NSA_MUTANT=both)
            return cases, set(reached.read().split())
    record = harness.folder / "mutants/pairs" / both
    reached = record.with_suffix(".reached")
    if reached.exists():
        return harness.judge(record), set(reached.read_text().split())
    record.parent.mkdir(exist_ok=True)
    under_way = record.with_suffix(".under_way")
    under_way.unlink(missing_ok=True)
    cases = harness.run(shlex.split(first["runs"][-1][0]), 300, record, TORCH_NSA_REACHED=str(under_way), TORCH_NSA_MUTANT=both)
    if not under_way.exists():
        return cases, set()  # no mutant is in this program
    under_way.rename(reached)
    return cases, set(reached.read_text().split())


def try_pair(harness, first, second, keep):
    """Whether each is named, and why the pair does not count, if so; and what was told."""
    both = (first, second)
    cases, reaches = cases_of_pair(harness, first, second, keep)
    if cases is None or not reaches:
        raise SystemExit(f"{first['name']}, {second['name']}: the run reached no mutant at all, or did not end: {cases}")
    told = findings(cases)
    named = [bool(initiating(one["findings"]) & initiating(told)) for one in both]
    why = ""
    for one, is_named in zip(both, named):
        causes = [finding for finding in one["findings"] if finding["role"] == "initiating"]
        if one["name"] not in reaches:
            why = f"{one['name']} is switched off by the other"
        elif not is_named and all(is_said_to_be_hidden(cause, told) for cause in causes):
            why = f"{one['name']} is hidden, and said to be"
    return named, why, told


def pairs(harness, mutants, given):
    count = both = 0
    for first, second in drawn_pairs(harness.folder, mutants, given.seed):
        if count == PAIRS:
            break
        named, why, told = try_pair(harness, first, second, given.keep)
        word = "both" if all(named) else f"does not count ({why})" if why else "NOT BOTH"
        count += all(named) or not why
        both += all(named)
        print(f"{word}: {first['name']} ({named[0]}), {second['name']} ({named[1]}): {first['runs'][-1][0]}", flush=True)
        for finding in told if word == "NOT BOTH" else []:
            print(f"    {finding['role']}: {said(finding)}", flush=True)
    print(f"{both} of {count} pairs: both are named, and neither is told as what follows from the other")
