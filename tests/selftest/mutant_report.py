"""What was found of mutants: how it is told, counted and compared with what a mutant declares. See mutants.py."""
import collections
import json
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def read_results(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def findings(cases):
    return [{**finding, "of_case": number} for number, case in enumerate(cases) for finding in case.get("findings", [])]


def initiating(found):
    return {(finding["code"], finding["site"].get("op")) for finding in found if finding["role"] == "initiating"}


def said(finding):
    site = finding["site"]
    words = [f"{key} {site[key]}" for key in ("layers", "branch", "op", "param", "phase", "ranks", "step") if key in site]
    return f"{finding['code']} @ {', '.join(words)}".replace("'", "")


def accused_wrongly(finding, options):
    """Does this finding name a layer, rank or operation other than that of the mutant? Only what the mutant declares is compared."""
    site = finding["site"]
    for key, declared in (("layers", "layer"), ("ranks", "rank")):
        if declared in options and site.get(key) and int(options[declared]) not in site[key]:
            return True
    named = [str(site[key]) for key in ("op", "branch", "param") if key in site]
    return bool("at" in options and named) and not any(
        word in name for word in options["at"].split(",") for name in named)


def causes_of_a_case(result):
    """The most that one case of the run tells."""
    of_case = collections.Counter(f.get("of_case", 0) for f in result["findings"] if f["role"] == "initiating")
    return max(of_case.values(), default=0)


def report(folder, mutants):
    results = {result["name"]: result for result in read_results(folder / "mutants/results.jsonl")}
    rows = [(mutant, results[mutant.name]) for mutant in mutants if mutant.name in results]
    for mutant, result in rows:
        if mutant.equivalent and result["outcome"] != "found":
            result["outcome"] = "equivalent"
    places = collections.defaultdict(collections.Counter)
    for mutant, result in rows:
        for place in (os.path.dirname(mutant.file), "all"):
            places[place][result["outcome"]] += 1
    counts_of_all = places["all"]
    for place, counts in sorted(places.items()):
        tried = counts.total() - counts["unreached"] - counts["equivalent"]
        print(f"{place:24} {counts['found']:3} of {tried:3} found   {dict(counts)}")
    seconds = [result["seconds"] for _, result in rows]
    print(f"{sum(seconds) / max(len(seconds), 1):.1f} s a mutant, {len(mutants) - len(rows)} not tried")
    for outcome in ("survived", "lost", "out of time", "unclear", "unreached"):
        print(f"\n{outcome}:")
        for mutant, result in rows:
            if result["outcome"] == outcome:
                line = (ROOT / mutant.file).read_text()[:mutant.where((ROOT / mutant.file).read_text())[0]].count("\n") + 1
                print(f"  {mutant.name}  {mutant.file}:{line}\n    - {mutant.old}\n    + {mutant.new}")
                if mutant.survives:
                    print(f"    argued: {mutant.survives}")
                for words, outcomes in result["runs"]:
                    print(f"      {' '.join(outcomes)}: {words}")
                for reason in result.get("reason", []):
                    print(f"      says: {reason}")
    for title, is_one in (("another family of codes", lambda m, f: not f["code"].startswith(tuple(m.options["codes"].split(",")))),
                          ("accuses another place", lambda m, f: accused_wrongly(f, m.options))):
        print(f"\n{title}:")
        for mutant, result in rows:
            first = [finding for finding in result["findings"] if finding["role"] == "initiating"]
            if any(is_one(mutant, finding) for finding in first):
                print(f"  {mutant.name} ({mutant.options}): {'; '.join(said(finding) for finding in first)}")
    several = [(mutant, result) for mutant, result in rows if result["outcome"] == "found" and causes_of_a_case(result) > 1]
    print(f"\none mistake told as several causes ({len(several)} of {counts_of_all['found']}):")
    for mutant, result in several:
        first = [finding for finding in result["findings"] if finding["role"] == "initiating"]
        print(f"  {mutant.name}: {'; '.join(said(finding) for finding in first)}")
    print("\nfound as:")
    for mutant, result in rows:
        first = [finding for finding in result["findings"] if finding["role"] == "initiating"]
        if result["outcome"] == "found":
            print(f"  {mutant.name}: {'; '.join(said(finding) for finding in first)}")
