"""A bridge between processes: every client revision with every server revision, and other implementations."""

from itertools import product

import pytest
from bench.interop import bridged
from bench.interop.features import OK

from .environment import need

CELLS = [" ".join(cell) for cell in product(bridged.REVISIONS, bridged.REVISIONS, bridged.TRANSPORTS)]
QUICK = {"2026-07-28 2024-11-05 stdio", "2024-11-05 2026-07-28 http"}
"""The longest way between two revisions, both ways."""


@pytest.mark.parametrize(
    "cell", [pytest.param(cell, marks=() if cell in QUICK else pytest.mark.slow) for cell in CELLS]
)
def test_a_revision_downstream_of_another(cell: str) -> None:
    front, back, _ = cell.split()
    (found,) = bridged.pairs(cell)
    nothing = {name for name in bridged.CHECKS if bridged.cannot(name, front, back)}
    assert found.outcome == {name: "refused" if name in nothing else OK for name in bridged.CHECKS}


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize(
    "who", ["official SDK", "FastMCP", "TypeScript SDK", "server-everything", "Inspector"]
)
def test_others_meet_us_through_a_bridge_that_changes_the_era(who: str) -> None:
    for environment in ("sdk", "fastmcp", "node"):
        need(environment)
    rows = list(bridged.with_peers(who))
    assert rows
    assert [failure for row in rows for failure in row.failures()] == []
