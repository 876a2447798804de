"""Reads tests/selftest/mutants/*.txt and writes mutants into source text.

    file PATH codes=PREFIX,...      what follows is in this file; its findings should have codes that begin like this
    mutant NAME [layer=N] [rank=N] [step=N] [codes=...] [at=WORD,...]
    - text that occurs once in the file; «» marks the part that changes (else all of it)
    + what stands there instead
    = why no run can tell it from the original (only where that is so): such a mutant does not count
    ~ why it survives, though it counts

The part must be an expression, or a statement that ends with `;`. Where it is less than an expression (an operator, a list of
arguments), ‹› marks the expression around it. Any white space stands for any other. `layer`, `rank` and `step` say where the
bug acts if it does not act everywhere; `at` names what a finding may accuse.
"""
import dataclasses
import pathlib
import re

FOLDER = pathlib.Path(__file__).resolve().parent / "mutants"


@dataclasses.dataclass
class Mutant:
    name: str
    folder: str  # the file of mutants that it is in
    file: str
    options: dict
    old: str = ""  # with its marks
    new: str = ""
    equivalent: str = ""  # the argument
    survives: str = ""  # likewise

    def where(self, text):
        """Begin and end in `text` of the expression that is doubled, and what stands there when the mutant is on."""
        line = self.old if "«" in self.old else "«" + self.old + "»"
        if "‹" not in line:
            line = line.replace("«", "‹«").replace("»", "»›")
        pattern = ""
        for piece in re.split("([‹«»›])", line):
            words = [re.escape(word) for word in piece.split()]
            gaps = (piece[:1].isspace(), piece[-1:].isspace())
            pattern += {"‹": "(?P<all>", "«": "(?P<part>", "»": ")", "›": ")"}.get(
                piece, r"\s+" * gaps[0] + r"\s+".join(words) + r"\s+" * (gaps[1] and bool(words)))
        found = list(re.finditer(pattern, text))
        if len(found) != 1:
            raise SystemExit(f"mutant {self.name}: found {len(found)} places in {self.file}, wanted 1: {self.old}")
        begin, end = found[0].span("all")
        first, last = found[0].span("part")
        return begin, end, text[begin:first] + self.new + text[last:end]


def read():
    mutants = []
    for path in sorted(FOLDER.glob("*.txt")):
        file, of_file = "", {}
        for line in path.read_text().splitlines():
            words = line.split()
            if not words:
                continue
            if words[0] in ("file", "mutant"):
                options = dict(word.split("=") for word in words[2:])
            if words[0] == "file":
                file, of_file = words[1], options
            elif words[0] == "mutant":
                mutants.append(Mutant(words[1], path.stem, file, {**of_file, **options}))
            elif words[0] == "-":
                mutants[-1].old = line[2:]
            elif words[0] == "+":
                mutants[-1].new = line[2:]
            elif words[0] == "=":
                mutants[-1].equivalent = line[2:]
            elif words[0] == "~":
                mutants[-1].survives = line[2:]
            else:
                raise SystemExit(f"{path}: found '{line}', wanted file, mutant, -, +, = or ~")
    names = [mutant.name for mutant in mutants]
    if len(set(names)) != len(names):
        raise SystemExit("two mutants have the same name")
    return mutants


def switched(name, new, old, is_statement):
    if is_statement:
        return f'{{ if (MUTANT("{name}")) {{ {new} }} else {{ {old} }} }}'
    return f'(MUTANT("{name}") ? ({new}) : ({old}))'


def mutated(text, mutants):
    """`text` with all mutants in it, each behind its switch. Places may lie in each other, but not overlap."""
    places = sorted((mutant.where(text) + (mutant.name,) for mutant in mutants), key=lambda place: (place[0], -place[1]))

    def written(begin, end, inside):
        out, at, i = "", begin, 0
        while i < len(inside):
            first, last, new, name = inside[i]
            i += 1
            within = []
            while i < len(inside) and inside[i][0] < last:
                if inside[i][1] > last:
                    raise SystemExit(f"mutants {name} and {inside[i][3]} overlap")
                within.append(inside[i])
                i += 1
            out += text[at:first] + switched(name, new, written(first, last, within), text[first:last].endswith(";"))
            at = last
        return out + text[at:end]

    return written(0, len(text), places)
