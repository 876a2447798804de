#!/usr/bin/env python3
"""Measures the power of the limits and writes the table of docs/arithmetic.md.

    tests/checks/power.py CHECKS_POWER           measures (some minutes) and writes the table
    tests/checks/power.py CHECKS_POWER --check   measures, and fails where a limit sees less than the table says
    tests/checks/power.py --read FILE            writes the table from the program's output

CHECKS_POWER is the program of that name in the build folder."""

import concurrent.futures
import pathlib
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "arithmetic.md"
BEGIN, END = "<!-- power: made by tests/checks/power.py -->\n", "<!-- end of power -->\n"
HEAD = "| check | what is multiplied by 1 + e | e of all numbers | e of one vector |\n| --- | --- | --- | --- |\n"
PARTS = ("attention", "step", "ranks")


def measured(program):
    def part(name):
        return subprocess.run([program, name], capture_output=True, text=True, check=True).stdout

    with concurrent.futures.ThreadPoolExecutor(len(PARTS)) as pool:
        return "".join(pool.map(part, PARTS))


def rows_of(table):
    rows = {}
    for line in table.splitlines():
        if line.startswith("| ") and not line.startswith(("| check", "| ---")):
            check, what, whole, one = (cell.strip() for cell in line.strip("|").split("|"))
            rows[check, what] = (whole, one)
    return rows


def size(text):
    return {"none": float("inf"), "the last bit": 0.0}.get(text) if text in ("none", "the last bit") else float(text)


def weaker(before, now):
    """What the limits see less of than the page says."""
    for key, sizes in before.items():
        if key not in now:
            yield f"{key}: no longer measured"
            continue
        for was, found in zip(sizes, now[key]):
            if size(found) > size(was):
                yield f"{key}: saw {was}, now {found}"


def main():
    text = PAGE.read_text()
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    table = pathlib.Path(sys.argv[2]).read_text() if sys.argv[1] == "--read" else measured(sys.argv[1])
    if "--check" in sys.argv:
        lost = list(weaker(rows_of(text[start:end]), rows_of(table)))
        print("\n".join(lost) or f"{len(rows_of(table))} limits see what the page says")
        return 1 if lost else 0
    PAGE.write_text(text[:start] + HEAD + table + text[end:])
    print(f"{len(rows_of(table))} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
