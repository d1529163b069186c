"""The map from the paper to the code: complete, and every name on it exists."""

import ast
import re
from pathlib import Path

import pytest
from public_names import resolve

ROOT = Path(__file__).parents[2]
MAP = ROOT / "docs" / "theory.md"

EQUATIONS = {"3": 4, "4": 4, "5": 1, "6": 1, "A": 3, "B": 7, "C": 33, "D": 5, "G": 3}
"""How many equations the paper numbers in each section."""

STATEMENTS = {
    *(f"Equation {section}.{i + 1}" for section, count in EQUATIONS.items() for i in range(count)),
    *(f"Definition {number}" for number in ("3.1", "3.2", "3.3", "4.1", "4.2", "4.3", "4.4", "4.5")),
    *(f"Theorem {number}" for number in ("3.1", "3.3", "4.1", "4.2", "4.3", "5.1", "6.1", "6.2", "G.1")),
    *(f"Theorem 5.3 ({part})" for part in (1, 2, 3, 4, 5)),
    *(f"Lemma {number}" for number in ("3.2", "5.2")),
    *(f"Table {number}" for number in ("C.1", "E.1", "F.1", "F.2")),
    *(f"Figure {number}" for number in (1, 2, 3, 4, 5)),
    "Algorithm 8.1",
}
NOT_COMPUTED = "a bound of the proof"
NAME = re.compile(r"`(decond\.[\w.]+)`")
TEST = re.compile(r"`(test_\w+)`")


def rows():
    """Return the rows of all tables but the errata, each as (statement, formula, computed by, checked by)."""
    statements, _, _ = MAP.read_text("utf-8").partition("## Errata")
    lines = [line for line in statements.splitlines() if line.startswith("|")]
    cells = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]
    return [row for row in cells if row[0] != "statement" and not row[0].startswith("---")]


ROWS = rows()


def test_every_row_has_four_cells():
    assert all(len(row) == 4 and all(row) for row in ROWS)


def test_every_statement_of_the_paper_is_on_the_map_once():
    numbered = [row[0] for row in ROWS if not row[0].startswith(("Section", "Appendix"))]
    assert sorted(numbered) == sorted(STATEMENTS)


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_every_statement_has_code(row):
    names = NAME.findall(row[2])
    assert names or row[2] == NOT_COMPUTED
    for name in names:
        resolve(name)


def test_tests_of_the_errata_exist():
    named = set(TEST.findall(MAP.read_text("utf-8").partition("## Errata")[2]))
    assert named
    assert named <= known_tests()


def test_only_bounds_have_no_code():
    assert [row[0] for row in ROWS if row[2] == NOT_COMPUTED] == ["Equation G.1", "Equation G.2", "Equation G.3"]


def known_tests():
    """Return the names of all test functions."""
    trees = [ast.parse(path.read_text("utf-8")) for path in (ROOT / "tests").rglob("test_*.py")]
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_statement_has_tests_that_exist():
    known = known_tests()
    for row in ROWS:
        tests = TEST.findall(row[3])
        assert tests, f"{row[0]} has no test."
        missing = [name for name in tests if name not in known]
        assert not missing, f"{row[0]} names tests that do not exist: {', '.join(missing)}."


def test_every_test_named_after_a_statement_is_on_the_map():
    named = re.compile(r"^test_(definition|theorem|lemma|table|figure_1|algorithm|equations|erratum)_")
    tests = {
        node.name
        for path in (ROOT / "tests" / "theorems").glob("test_*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef) and named.match(node.name)
    }
    assert not tests - set(TEST.findall(MAP.read_text("utf-8")))


def test_other_names_on_the_page_exist():
    for name in NAME.findall(MAP.read_text("utf-8")):
        resolve(name)
