"""Settings and fixtures of all tests.

With ``EVERY_MIDDLEWARE=1`` every server of the tests has every middleware, at limits that no
test reaches: ``make test-middleware``.
A test about a server without middleware is marked ``@pytest.mark.bare(reason)``.
"""

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import nullcontext

import pytest
from hypothesis import HealthCheck, settings

from dovetail.server import current_call
from tests.support.every_middleware import everywhere

# The time of one example depends on what else the machine does.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

PROGRAMS = {
    "browser": ("chromium",),
    "redis": ("redis-server",),
    "prometheus": ("prometheus", "promtool"),
}
"""The programs that the tests with a marker need."""


@pytest.fixture(autouse=True, scope="session")
def _every_middleware() -> Iterator[None]:
    with everywhere() if os.environ.get("EVERY_MIDDLEWARE") else nullcontext():
        yield


@pytest.fixture(autouse=True)
def _nobody_asked_for_the_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some test of this process has imported `get_context`; the others are those of a program that has not."""
    monkeypatch.setattr(current_call, "wanted", False)


def _loggers() -> dict[str, tuple[object, ...]]:
    """The settings of the library's loggers. One of a name that no test used yet has the default settings."""
    known = logging.Logger.manager.loggerDict.items()
    own = {
        name: one for name, one in known if name.startswith("dovetail") and isinstance(one, logging.Logger)
    }
    return {name: (one.level, one.propagate, one.disabled) for name, one in own.items()}


@pytest.fixture(autouse=True)
def _loggers_stay_as_they_are() -> Iterator[None]:
    """Fail the test that changes a logger for those after it."""
    before = _loggers()
    yield
    default = (logging.NOTSET, True, False)
    changed = [name for name, now in _loggers().items() if now != before.get(name, default)]
    assert [name for name in changed if name != "dovetail.calls.json"] == []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items if os.environ.get("EVERY_MIDDLEWARE") else ():
        for mark in item.iter_markers("bare"):
            item.add_marker(pytest.mark.skip(reason=f"about a server without middleware: {mark.args[0]}"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a selected test whose programs are not installed: a skipped test would go unnoticed."""
    for marker, programs in PROGRAMS.items():
        missing = [program for program in programs if shutil.which(program) is None]
        if missing and item.get_closest_marker(marker) is not None:
            pytest.fail(
                f"{missing[0]} is not installed: run scripts/packages.sh {programs[0]}", pytrace=False
            )
