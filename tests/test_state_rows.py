"""docs/design/state-rows.md: every row names a test, and every test that is named is there."""

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
PAGE = (TESTS.parent / "docs" / "design" / "state-rows.md").read_text()
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split(" | "))
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| row")
]


@cache
def defined(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text())
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in functions)


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_row_names_a_test_that_exists(row: tuple[str, ...]) -> None:
    _, test = row
    file, _, name = test.strip("`").partition("::")
    assert name.startswith("test_")
    assert name in defined(file), f"{file} has no such test any more"


def test_every_subject_has_rows() -> None:
    assert len(ROWS) >= 100
    assert {line for line in PAGE.splitlines() if line.startswith("## ")} == {
        "## Sessions (document 004, session state machine)",
        "## Persistence and failover (document 004, notes)",
        "## The end (documents 000 and 004)",
        "## Tasks (documents 000 and 004)",
        "## What is promised beyond the documents",
    }
