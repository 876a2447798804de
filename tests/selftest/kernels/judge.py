"""Compares out/NAME.txt with EXPECT.jsonl.   python judge.py [--thorough] [-v] [name ...]
found: a wrong kernel has a finding, a right one has none. code: at least one finding has a right code; `+X` are other codes beside it.
branch: the site or the statement names one. place: numbers of rows and heads in the site obey the rule; words of gradients that are
right do not stand in the statement as wrong (shown, to be read). law: ok, none, or the law that misleads."""
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
args = [a for a in sys.argv[1:] if not a.startswith("-")]
thorough, verbose = "--thorough" in sys.argv, "-v" in sys.argv


def flat(x):
    if isinstance(x, dict):
        return " ".join(f"{k} {flat(v)}" for k, v in x.items())
    if isinstance(x, list):
        return ",".join(flat(v) for v in x)
    return str(x)


def numbers(site, text, word):
    if isinstance(site, dict):
        for key in (word, word + "s"):
            if site.get(key) not in (None, [], ""):
                return [int(n) for n in re.findall(r"\d+", flat(site[key]))]
    found = re.search(rf"\b{word}s?[ :=\[']*((?:\d+(?:\s*(?:-|to|,|and)\s*)?)+)", text)
    return [int(n) for n in re.findall(r"\d+", found.group(1))] if found else []


def laws(f):
    out, text = [], f["site_text"] + " " + flat(f["site"]) + " " + f["statement"]
    out += re.findall(r"\blaw[^a-z]{1,6}([a-z][a-z_0-9]+)", text)
    out += re.findall(r'law:? "([^"]+)"', text)
    return [x for x in dict.fromkeys(out) if x not in ("gives", "is", "of", "this", "that", "the")]


table, bad = [], 0
for line in open(HERE / "EXPECT.jsonl"):
    e = json.loads(line)
    if args and not any(e["name"].startswith(a) for a in args):
        continue
    path = HERE / "out" / ("thorough" if thorough else "") / f"{e['name']}.txt"
    if not path.exists():
        table.append((e["name"], "not run", "", "", "", "", "", "")); continue
    text = path.read_text()
    rows = [json.loads(x) for x in text.splitlines() if x.startswith('{"kind"')]
    verdicts, findings = [r for r in rows if r["kind"] == "verdict"], [r for r in rows if r["kind"] == "finding"]
    seconds = sum(v.get("seconds", 0) for v in verdicts)
    errors = [f"{v['error']}: {v['message'][:60]}" for v in verdicts if v["passed"] is None]
    if "(timeout)" in text or (not verdicts):
        errors.append("timeout" if "(timeout)" in text else "no verdict")
    codes = list(dict.fromkeys(f["code"] for f in findings))
    failed = [v for v in verdicts if v["passed"] is False]
    if e["kind"] == "right":
        good = bool(verdicts) and not failed and not errors
        bad += not good
        table.append((e["name"], "PASS" if good else "FALSE ALARM" if failed else "ERROR", ",".join(codes), "", f"{len(verdicts) - len(failed)}/{len(verdicts)}", "", f"{seconds:.0f}", "; ".join(errors)))
        if failed and verbose:
            for f in findings:
                print("   ", e["name"], f["function"], f["code"], f["site_text"], f["statement"][:400], f["trials"])
        continue
    found = bool(failed)
    late = e["default_or_thorough"] == "thorough" and not thorough
    hits = [f for f in findings if f["code"] in e["right_code"]]
    extra = [c for c in codes if c not in e["right_code"]]
    code = ("ok" if hits else "WRONG") + "".join(" +" + c for c in extra) if found else ""
    branch = ""
    if hits:
        words = e["right_branch"]
        branch = "ok" if any(any(re.search(rf"\b{re.escape(w)}\b", flat(f["site"]) + " " + f["site_text"] + " " + f["statement"]) for w in words) for f in hits) else "WRONG"
    place, remarks = [], []
    for f in hits:
        where = f["site_text"] + " " + flat(f["site"])
        for word, rule, var in (("row", e["row_rule"], "t"), ("head", e["head_rule"], "h")):
            n = numbers(f["site"], where, word)
            if rule and n:
                off = [x for x in n if not eval(rule, {var: x})]
                place.append(f"{word}s off {off[:4]}" if off else f"{word}s ok")
        if e["tensors"] and f["code"] == "NUMERIC.GRADIENT":
            named = set(re.findall(r"\bd[qkv]\b", where + " " + f["statement"]))
            if named - set(e["tensors"]):
                place.append("names " + ",".join(sorted(named - set(e["tensors"]))))
            elif named:
                place.append("tensors ok")
    misled = []
    for f in findings:
        for law in [" ".join(laws(f))] if laws(f) else []:
            low = law.lower()
            if any(w.lower() in low for w in e["law_ok"]):
                misled.append("ok: " + laws(f)[0])
            elif any(w.lower() in low for w in e["law_misleads"]):
                misled.append("MISLEADS: " + law[:50])
            else:
                misled.append("read: " + law[:50])
    state = "found" if found else "ERROR" if errors else "later" if late else "MISSED"
    bad += state in ("MISSED", "ERROR") or "WRONG" in code or "WRONG" in branch or any("MISLEADS" in m for m in misled) or any("off" in p for p in place)
    table.append((e["name"], state, code, branch, "; ".join(dict.fromkeys(place)), "; ".join(dict.fromkeys(misled)), f"{seconds:.0f}", "; ".join(errors)))
    if verbose:
        print(f"--- {e['name']}: {e['place']}{' NOTE ' + e['note'] if e['note'] else ''}")
        for f in findings:
            print("   ", f["code"], "|", f["site_text"], "|", f["statement"][:600], "|", f["trials"])
head = ("kernel", "found", "code", "branch", "place", "law", "s", "errors")
widths = [max(len(str(r[i])) for r in [head] + table) for i in range(7)]
for r in [head] + table:
    print("  ".join(str(x).ljust(w) for x, w in zip(r, widths + [0])).rstrip())
wrong = [r for r in table if r[0][0] == "k" and r[1] != "not run"]
print(f"\n{sum(r[1] == 'found' for r in wrong)} of {len(wrong)} wrong ones found, {sum(r[2].startswith('ok') for r in wrong)} by a right code, "
      f"{sum(r[3] == 'ok' for r in wrong)} with the branch, {sum('MISLEADS' in r[5] for r in wrong)} laws mislead, "
      f"{sum(r[1] == 'PASS' for r in table)} of {sum(r[0][0] == 'r' and r[1] != 'not run' for r in table)} right ones pass; {bad} rows to look at")
