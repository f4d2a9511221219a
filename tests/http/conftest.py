"""Fixtures of the HTTP tests."""

from pathlib import Path

import pytest

from tests.http.children import SLOW


@pytest.fixture
def slow(tmp_path: Path) -> str:
    path = tmp_path / "slow.py"
    path.write_text(SLOW)
    return str(path)


@pytest.fixture(autouse=True)
def hosted(request: pytest.FixtureRequest) -> str:
    """The server everything of this test is served by."""
    for mark in request.node.iter_markers("cannot"):
        if "asyncio" in mark.args[:-1]:
            pytest.skip(mark.args[-1])
    return "asyncio"
