"""docs/performance.md: the tables follow from the measured cost of a call."""

import re
from pathlib import Path

import pytest
from bench.scale import fleet, table

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "performance.md").read_text()


def rows(head: str) -> list[list[str]]:
    return table(PAGE, head)


def number(text: str) -> float:
    found = re.search(r"[\d,.]*\d", text)
    assert found is not None, text
    return float(found[0].replace(",", ""))


CALL = number(rows("workers")[0][1])


@pytest.mark.parametrize("row", rows("calls/s"), ids=lambda row: f"{row[0]} calls a second")
def test_the_table_is_the_arithmetic(row: list[str]) -> None:
    calls, sessions, *said = (number(cell) for cell in row)
    found = fleet(calls=calls, sessions=sessions, call_us=CALL)
    assert said == [pytest.approx(value, rel=0.06, abs=0.051) for value in found]


def test_a_call_that_costs_twice_as_much_needs_twice_the_workers() -> None:
    once, twice = (fleet(calls=100_000, sessions=1_000_000, call_us=cost) for cost in (100, 200))
    assert twice.workers == pytest.approx(2 * once.workers, abs=1)
