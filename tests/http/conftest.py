"""Fixtures of the HTTP tests.

A module that says ``ON = (…)`` runs each of its tests on each of those hosts, but those that are marked with
`anywhere`: they reach no host. What a host cannot do is marked with `cannot` and stands in the table of `docs/http.md`.
"""

from pathlib import Path

import pytest

from tests.http.children import SLOW
from tests.support import web


@pytest.fixture
def slow(tmp_path: Path) -> str:
    path = tmp_path / "slow.py"
    path.write_text(SLOW)
    return str(path)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    hosts = getattr(metafunc.module, "ON", ())
    if hosts and metafunc.definition.get_closest_marker("anywhere") is None:
        metafunc.parametrize("hosted", hosts, indirect=True)


@pytest.fixture(autouse=True)
def hosted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The host everything of this test is served by."""
    name: str = getattr(request, "param", web.HOST)
    for mark in request.node.iter_markers("cannot"):
        if name in mark.args[:-1]:
            pytest.skip(mark.args[-1])
    monkeypatch.setattr(web, "HOST", name)
    return name
