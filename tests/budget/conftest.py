"""Fixtures of the tests that count calls."""

import pytest


@pytest.fixture(autouse=True)
def no_disconnect_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the check of long requests would fall into some of the counts."""
    monkeypatch.setattr("dovetail.transports.http.server.disconnects._CHECK_INTERVAL", 3600.0)
