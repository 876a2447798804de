#!/usr/bin/env python3
"""Writes docs/faults.md from the files of scenarios/faults: what is planted, where, and what the harness must say.

    tests/selftest/fault_table.py            writes the table anew
    tests/selftest/fault_table.py --check    fails where the table is not what the files say
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/faults.md"
HEAD = """# What is planted, and what must be said

Written by `tests/selftest/fault_table.py` from the files of `scenarios/faults`; a test holds it to them. A row is a file: the case
that it runs (`kind`), the fault and its parameters, and what its `expect` demands: outcome, code and site. Where a code has an
alternative, both are right.

```sh
./nsa-harness run scenarios/faults/first_key.yaml         # one of them: PASS where what must be said was said
./nsa-harness run scenarios/ddp_onestep.yaml --set fault=first_key   # the same fault in another scenario
./nsa-harness selftest                                    # all of them at drawn places, each beside the same case without it
```

`selftest` counts how many were found, with the right code and the right site, and how many cases without a fault did not pass.
`./nsa-harness list` names the parameters that each fault heeds.

| file | kind | fault | what is wrong | outcome | code | site |
| --- | --- | --- | --- | --- | --- | --- |
"""


def value_of(text, key):
    """Of a key of the first level: the rest of its line, or the folded lines below it."""
    found = re.search(rf"^{key}: *(.*(?:\n +.*)*)", text, re.M).group(1)
    return " ".join(found.removeprefix(">-").split())


def parts_of(flow):
    """A flow map as (key, value) texts: commas inside brackets belong to the value."""
    parts = re.findall(r"(\w+): *((?:\[[^\]]*\]|\{(?:[^{}]|\{[^{}]*\})*\}|[^,{}\[\]])+)", flow[1:-1])
    return {key: value.strip() for key, value in parts}


def row(path):
    text = path.read_text()
    fault, expect = parts_of(value_of(text, "fault")), parts_of(value_of(text, "expect"))
    planted = ", ".join([f"**{fault.pop('name')}**"] + [f"{key} {value}" for key, value in fault.items()])
    site = expect.get("site", "").removeprefix("{").removesuffix("}") or "–"
    cells = [f"[{path.stem}](../scenarios/faults/{path.name})", value_of(text, "kind"), planted, value_of(text, "about"),
             expect.get("outcome", "any"), expect.get("code", "–"), site]
    return "| " + " | ".join(cells) + " |\n"


def main():
    page = HEAD + "".join(row(path) for path in sorted((ROOT / "scenarios/faults").glob("*.yaml")))
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page)
    elif PAGE.read_text() != page:
        sys.exit("docs/faults.md is not what scenarios/faults says: run tests/selftest/fault_table.py")


if __name__ == "__main__":
    main()
