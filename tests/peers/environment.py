"""The environments of the other implementations of the protocol."""

import pytest
from bench import peers


def need(environment: str) -> None:
    """Fail unless ``.peers/ENVIRONMENT`` is installed."""
    if not peers.installed(environment):
        pytest.fail(peers.missing(environment))
