"""Stores that several servers share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.redis import RedisServer
from tests.support.shared import Shared


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.redis)])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Shared:
    if request.param == "sqlite":
        return Shared(tmp_path / "s.db")
    return Shared(tmp_path, request.getfixturevalue("redis_server"))
