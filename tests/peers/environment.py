"""Where the other implementations are. Without them a test is skipped and says so; on a build server it fails."""

import os

import pytest
from bench import peers


def need(environment: str) -> None:
    """Go on only if ``.peers/ENVIRONMENT`` is there."""
    if peers.installed(environment):
        return
    if os.environ.get("CI") == "true":
        pytest.fail(peers.missing(environment))
    pytest.skip(peers.missing(environment))
