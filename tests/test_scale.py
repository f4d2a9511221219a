"""docs/scale.md: the simulation predicts what was measured, and the arithmetic is the page's."""

import re
from pathlib import Path

import pytest
from bench.scale import Costs, fleet, simulate, table

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "scale.md").read_text()


def rows(head: str) -> list[list[str]]:
    return table(PAGE, head)


def number(text: str) -> float:
    found = re.search(r"[\d,.]*\d", text)
    assert found is not None, text
    return float(found[0].replace(",", ""))


CALL = number(rows("workers")[0][1])


@pytest.mark.parametrize("row", rows("workers"), ids=lambda row: f"{row[0]} workers")
def test_the_simulation_predicts_what_was_measured_within_a_fifth(row: list[str]) -> None:
    workers, call, thread, driver, measured, said = (number(cell) for cell in row)
    predicted = simulate(Costs(call, thread, driver, cores=2), int(workers))
    assert round(predicted) == said
    assert predicted == pytest.approx(measured, rel=0.2)


@pytest.mark.parametrize("row", rows("calls/s"), ids=lambda row: f"{row[0]} calls a second")
def test_the_table_is_the_arithmetic(row: list[str]) -> None:
    calls, sessions, *said = (number(cell) for cell in row)
    found = fleet(calls=calls, sessions=sessions, call_us=CALL)
    assert said == [pytest.approx(value, rel=0.06, abs=0.051) for value in found]


def test_a_call_that_costs_twice_as_much_needs_twice_the_workers() -> None:
    once, twice = (fleet(calls=100_000, sessions=1_000_000, call_us=cost) for cost in (100, 200))
    assert twice.workers == pytest.approx(2 * once.workers, abs=1)
    assert simulate(Costs(200, 150, 20, 16), 4) == pytest.approx(
        simulate(Costs(100, 75, 20, 16), 2), rel=0.05
    )


def test_workers_beyond_the_cores_bring_nothing() -> None:
    costs = Costs(100, 80, 50, 2)
    assert simulate(costs, 8) == pytest.approx(simulate(costs, 2), rel=0.05)
    assert simulate(costs._replace(cores=16), 2) > 1.5 * simulate(costs._replace(cores=16), 1)
