#!/usr/bin/env python3
"""The documents hold together: links lead to a file and a heading that exist, the README leads to every page, and the index of
ARCHITECTURE.md names every decision once, in its own section. Exit 1 names what does not hold.

    documents_test.py ROOT
"""

import re
import sys
from pathlib import Path

LONGEST_LINE = 140
MOST_LINES = 4  # of a decision
LONGEST_COMMENT = 132


def without_code(text):
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def anchor(heading):
    """As GitHub makes it."""
    words = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def anchors(path):
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", without_code(path.read_text()), re.MULTILINE)}


def links(path):
    """(page, anchor) of each relative link; the page is absolute."""
    text = re.sub(r"`[^`\n]*`", "", without_code(path.read_text()))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", target):
            page, _, heading = target.partition("#")
            yield target, (path.parent / page).resolve() if page else path, heading


def broken_links(pages):
    for page in pages:
        for target, path, heading in links(page):
            if not path.exists():
                yield f"{page.name}: {target}: found no such file"
            elif heading and heading not in anchors(path):
                yield f"{page.name}: {target}: found no such heading"


def unread_pages(root):
    linked = {path for _, path, _ in links(root / "README.md")}
    for page in sorted((root / "docs").rglob("*.md")):
        if page.resolve() not in linked:
            yield f"README.md: found no link to {page.relative_to(root)}"


def wrong_index(page):
    text = page.read_text()
    rows = dict(re.findall(r"^\| \[[^\]]*\]\(#([^)]*)\) \| ([\d, ]+) \|$", text, re.MULTILINE))
    wanted = {section: [int(number) for number in numbers.split(",")] for section, numbers in rows.items()}
    found = {section: [] for section in wanted}
    section = ""
    for part in text.split("\n\n"):
        if heading := re.match(r"#+ (.*)", part):
            section = anchor(heading[1])
        if decision := re.match(r"\*\*(\d+)\.\*\* ", part):
            found.setdefault(section, []).append(int(decision[1]))
            if part.strip().count("\n") >= MOST_LINES:
                yield f"{page.name}: decision {decision[1]}: found more than {MOST_LINES} lines"
    for section in found:
        if sorted(found[section]) != wanted.get(section):
            yield f"{page.name}: {section}: found {sorted(found[section])}, the index has {wanted.get(section)}"


def long_lines(pages):
    for page in pages:
        if page.name == "codes.md":  # written by the program, a paragraph a line
            continue
        for line in without_code(page.read_text()).split("\n"):
            if len(line) > LONGEST_LINE and not line.lstrip().startswith("|"):
                yield f"{page.name}: found a line of {len(line)} characters, wanted {LONGEST_LINE}: {line[:60]}"


def long_comments(root):
    for folder in ("nsa", "oracles", "harness", "reports"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in {".h", ".cpp", ".cu", ".cuh"}:
                continue
            for number, line in enumerate(path.read_text().split("\n"), 1):
                if len(line) > LONGEST_COMMENT and line.lstrip().startswith("//"):
                    yield f"{path.relative_to(root)}:{number}: found a comment of {len(line)} characters, wanted {LONGEST_COMMENT}"


def main(root):
    pages = [root / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    pages += sorted((root / "docs").rglob("*.md"))
    wrong = [*broken_links(pages), *unread_pages(root), *wrong_index(root / "ARCHITECTURE.md"), *long_lines(pages), *long_comments(root)]
    if wrong:
        print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
