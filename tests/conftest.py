"""With ``EVERY_LAYER=1`` every server of the tests has every layer, at settings that nobody reaches.

Layers change nothing for whoever is within the limits: ``EVERY_LAYER=1 pytest tests/server tests/client tests/http``.
"""

import os

import pytest

from tests.support.every_layer import everywhere


@pytest.fixture(autouse=True, scope="session")
def _every_layer() -> None:
    if os.environ.get("EVERY_LAYER"):
        everywhere()
