#!/usr/bin/env python3
"""Counts the concepts of a tree: types, tokens, lines, and the private types for "wrong at this place".

    pip install libclang
    tests/selftest/concepts.py TREE [OTHER_TREE]        a table, one column for each tree

Types come from libclang (definitions of struct, class and enum; function bodies are skipped). A private type for "wrong at this
place" is a type of harness/checks that a hand-written function there turns into a Finding: the function returns a Finding, or
fills one, and takes the type as its argument. A walk over stages is a loop over kForwardStages; an agreement is a call of
minority() or all_equal(), which decides what equal means; a private row comparison is a function of harness/checks that gives the
set of rows in which two tensors differ.
"""

import concurrent.futures
import pathlib
import re
import sys

import clang.cindex as ci

ROOMS = ("harness", "nsa", "oracles", "reports")
TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.']*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|::|->|<<=?|>>=?|[-+*/%&|^=!<>]=|&&|\|\||\+\+|--|\S")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


def sources(tree, *rooms):
    for room in rooms:
        for path in sorted((tree / room).rglob("*")):
            if path.suffix in (".h", ".cpp", ".cu", ".cuh") and path.is_file():
                yield path


def size_of(paths):
    lines = tokens = 0
    for path in paths:
        text = path.read_text()
        lines += text.count("\n")
        tokens += len(TOKEN.findall(COMMENT.sub("", text)))
    return lines, tokens


BATCH = 20  # files that are read as one; what is defined twice in them is counted by its file and line


def definitions_of(job):
    tree, paths = job
    args = ["-x", "c++", "-std=c++20", f"-I{tree}", "-DXXH_INLINE_ALL", "-ferror-limit=0"]
    batch = str(tree / "batch.cpp")
    text = "".join(f'#include "{path.relative_to(tree)}"\n' for path in paths)
    unit = ci.Index.create().parse(batch, args, unsaved_files=[(batch, text)],
                                   options=ci.TranslationUnit.PARSE_SKIP_FUNCTION_BODIES)
    types, turned = set(), set()

    def names_finding(spelling):
        return re.search(r"\bFinding\b", spelling) is not None

    def own_type(kind):
        target = kind.get_pointee() if kind.get_pointee().kind != ci.TypeKind.INVALID else kind
        declared = target.get_declaration()
        where = declared.location.file
        if declared.kind not in (ci.CursorKind.STRUCT_DECL, ci.CursorKind.CLASS_DECL) or where is None:
            return ""
        return declared.spelling if "/harness/checks/" in where.name else ""

    def visit(cursor):
        for child in cursor.get_children():
            where = child.location.file
            if where is None or not where.name.startswith(str(tree)):
                continue
            record = child.kind in (ci.CursorKind.STRUCT_DECL, ci.CursorKind.CLASS_DECL, ci.CursorKind.ENUM_DECL,
                                    ci.CursorKind.CLASS_TEMPLATE)
            if record and child.is_definition():
                types.add((where.name[len(str(tree)) + 1:], child.location.line, child.spelling))
            function = child.kind in (ci.CursorKind.FUNCTION_DECL, ci.CursorKind.CXX_METHOD)
            if function and "/harness/checks/" in where.name:
                arguments = list(child.get_arguments())
                gives = names_finding(child.result_type.spelling)
                fills = any(names_finding(a.type.spelling) and "const" not in a.type.spelling for a in arguments)
                if gives or fills:
                    turned.update(own_type(a.type) for a in arguments)
            visit(child)

    visit(unit.cursor)
    return types, turned


KNOWN = {"", "Departure", "Evidence", "ResultBuilder", "StageApart", "LayerPlace", "Departures", "StepFindings"}


def counts(tree):
    tree = tree.resolve()
    lines, tokens = size_of(sources(tree, *ROOMS))
    test_lines, test_tokens = size_of(sources(tree, "tests"))
    check_tests, _ = size_of(sources(tree, "tests/checks"))
    checks = list(sources(tree, "harness/checks"))
    check_lines, check_tokens = size_of(checks)
    text = "\n".join(COMMENT.sub("", path.read_text()) for path in checks)
    files = [p for p in sources(tree, *ROOMS) if p.suffix not in (".cu", ".cuh")]
    batches = [(tree, files[at:at + BATCH]) for at in range(0, len(files), BATCH)]
    types, turned = set(), set()
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        for some, wrong in pool.map(definitions_of, batches):
            types |= some
            turned |= wrong
    turned -= KNOWN
    yield "product: files", len(list(sources(tree, *ROOMS)))
    yield "product: lines", lines
    yield "product: tokens", tokens
    yield "product: types", len(types)
    yield "harness/checks: lines", check_lines
    yield "harness/checks: tokens", check_tokens
    yield "harness/checks: types", sum(1 for where, _, _ in types if where.startswith("harness/checks/"))
    yield "types that a function turns into a Finding", len(turned)
    yield "their names", " ".join(sorted(turned))
    yield "walks over the stages of a forward", len(re.findall(r"kForwardStages\.size\(\)", text))
    yield "calls that decide equality (minority, all_equal)", len(re.findall(r"\b(?:minority|all_equal)\(", text))
    yield "rows in which two tensors differ: functions", len(
        re.findall(r"(?:std::set<int>|\bRows) (?:changed_rows|rows_apart|rows_of_other_integers|other_rows|rows_where)\(", text))
    yield "tests: lines", test_lines
    yield "tests: tokens", test_tokens
    yield "tests/checks: lines of C++", check_tests


def main():
    trees = [pathlib.Path(name) for name in sys.argv[1:]]
    if not trees:
        sys.exit(__doc__)
    columns = [dict(counts(tree)) for tree in trees]
    for name in columns[0]:
        print(f"{name:52}" + "".join(f"{str(column[name]):>14}" if name != "their names" else f"\n    {column[name]}" for column in columns))


if __name__ == "__main__":
    main()
