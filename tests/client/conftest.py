"""Fixtures of the client's tests."""

import pytest

from ..support import http_clients


@pytest.fixture(params=[None, *http_clients.LIBRARIES], ids=lambda library: library or "own")
def http_library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test runs over our own HTTP client, and over those that an application may bring."""
    if request.param is not None:
        pytest.importorskip(request.param)
    monkeypatch.setattr(http_clients, "chosen", request.param)
