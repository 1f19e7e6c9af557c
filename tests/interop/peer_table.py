# SPDX-License-Identifier: Apache-2.0
"""
What came out for each combination and question, kept beside the peers, and the tables of doc/conformance.

    /usr/bin/python3 peer_table.py PEER DIR PAGE    writes the table of DIR/matrix.json into the page
"""
import importlib
import json
import pathlib
import sys

FILE = "matrix.json"
BEGIN, END = "<!-- table -->", "<!-- end of table -->"
WORDS = {"passed": "yes", "failed": "NO"}


class Results:
    """Written after every question, so that a run that is cut short, or of some combinations only, counts too."""

    def __init__(self, directory):
        self.path = pathlib.Path(directory) / FILE
        self.seen = json.loads(self.path.read_text()) if self.path.exists() else {}

    def set(self, combo, question, outcome):
        self.seen.setdefault(combo, {})[question] = outcome
        self.path.write_text(json.dumps(self.seen, indent=1, sort_keys=True))


def _cell(seen, combo, case, cases):
    """A question that is not asked of a combination has a dash there."""
    if hasattr(cases, "applies") and not cases.applies(combo, case):
        return "-"
    return WORDS.get(seen.get(combo.name, {}).get(case.__name__), "not run")


def rows(seen, combos, cases):
    """Lines of Markdown: a row per question, a column per combination."""
    yield "| | Question | " + " | ".join("ABCDEFGHIJKL"[i] for i in range(len(combos))) + " |"
    yield "|---|---|" + "---|" * len(combos)
    for n, case in enumerate(cases.CASES, 1):
        cells = [_cell(seen, c, case, cases) for c in combos]
        yield f"| {n} | {cases.title(case)} | " + " | ".join(cells) + " |"


def same(page, seen, combos, cases):
    """Fails where a page has another result than was seen; what was not seen counts for nothing."""
    table = {row[1]: row[2:] for row in published(page)[2:]}
    assert list(table) == [cases.title(c) for c in cases.CASES]
    for i, combo in enumerate(combos):
        for c in cases.CASES:
            result = seen.get(combo.name, {}).get(c.__name__)
            assert not result or table[cases.title(c)][i] == WORDS[result], (combo.name, cases.title(c))


def published(page):
    """The rows of a page, as lists of cells."""
    text = pathlib.Path(page).read_text(encoding="utf-8")
    lines = text[text.index(BEGIN):text.index(END)].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]


def write(page, lines):
    path = pathlib.Path(page)
    text = path.read_text(encoding="utf-8")
    path.write_text(text[:text.index(BEGIN)] + "\n".join([BEGIN, *lines, ""]) + text[text.index(END):], encoding="utf-8")


def main(peer, directory, page):
    here = pathlib.Path(__file__).resolve().parent
    sys.path[:0] = [str(here / peer), str(here.parent / "e2e")]
    combos, cases = (importlib.import_module(f"{peer}_{part}") for part in ("combos", "cases"))
    write(page, rows(Results(directory).seen, combos.COMBOS, cases))


if __name__ == "__main__":
    main(*sys.argv[1:])
