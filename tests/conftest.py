"""With ``EVERY_LAYER=1`` every server of the tests has every layer, at settings that nobody reaches.

Layers change nothing for whoever is within the limits: ``make test-layers``. A test that is about a server without
them says so: ``@pytest.mark.bare(reason)``.
"""

import gc
import os
from collections.abc import Generator, Iterator
from contextlib import nullcontext

import pytest
from hypothesis import HealthCheck, settings

from dovetail.server import current
from tests.support.dealing import longest_first, pytest_xdist_make_scheduler
from tests.support.every_layer import everywhere

__all__ = ["pytest_xdist_make_scheduler"]

# How long an example takes says how much else the machine has to do.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


@pytest.fixture(autouse=True, scope="session")
def _every_layer() -> Iterator[None]:
    with everywhere() if os.environ.get("EVERY_LAYER") else nullcontext():
        yield


@pytest.fixture(autouse=True, scope="module")
def _what_other_files_left_is_no_longer_looked_at() -> None:
    """It becomes more and more, and in the end whoever looks at all objects takes a second for it."""
    look_at_no_more_than_comes()


@pytest.fixture(autouse=True)
def _nobody_asked_for_the_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some test of this process has imported `get_context`; the others are those of a program that has not."""
    monkeypatch.setattr(current, "wanted", False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    longest_first(items)
    for item in items if os.environ.get("EVERY_LAYER") else ():
        for mark in item.iter_markers("bare"):
            item.add_marker(pytest.mark.skip(reason=f"about a server without layers: {mark.args[0]}"))


def look_at_no_more_than_comes() -> None:
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()  # nothing of what is made here goes away
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Whatever looks at all objects looks at those of the tests to come, half a million of them, no more."""
    look_at_no_more_than_comes()
