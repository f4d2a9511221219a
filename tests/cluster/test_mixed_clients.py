"""Clients of three libraries on several processes without stickiness: questions, subscriptions and tasks at once."""

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from bench import peers

from tests.cluster.fleet import Customer, shop, write
from tests.cluster.test_failover import address, machines, victim
from tests.http.children import child
from tests.peers.environment import need
from tests.support.aio import run_limited
from tests.support.redis import RedisServer
from tests.support.waiting import until

pytestmark = pytest.mark.peer

HERE = Path(__file__).parent
VISITORS = {
    "sdk": ("sdk", "sdk_shop.py"),
    "typescript": ("node", "typescript_shop.mjs"),
}
INTERRUPTED = (
    "call_interrupted",
    "was interrupted",
    "connection",
    "Connection",
    "fetch failed",
    "terminated",
)
"""The report of another library's client about a call in flight when its worker died: the outcome is unknown."""


class Visitor:
    """A client of another library, in a separate process."""

    def __init__(self, library: str, url: str, era: str, calls: int) -> None:
        self.name = f"{library}-{era}"
        self.words: list[str] = []
        self._library = library
        self._arguments = (url, era, self.name, str(calls))
        self._calls = calls

    async def visit(self) -> None:
        environment, file = VISITORS[self._library]
        process = await asyncio.create_subprocess_exec(
            peers.interpreter(environment), str(HERE / file), *self._arguments, stdout=asyncio.subprocess.PIPE,
            env=peers.environ(),
        )  # fmt: skip
        assert process.stdout is not None
        async for line in process.stdout:
            self.words.append(line.decode().strip().partition(" ")[2])
        assert await process.wait() == 0
        assert len(self.words) == self._calls

    @property
    def failures(self) -> list[str]:
        return [f"{self.name}: {number} {word}" for number, word in enumerate(self.words) if word != "done"]


async def everybody(urls: Sequence[str], *, calls: int, kill: bool) -> None:
    """Ours of every era and two of each other library, over all addresses; a worker is killed half-way."""
    customers: list[Customer] = []
    visitors = [
        Visitor(library, urls[at % len(urls)], era, calls)
        for library in VISITORS
        for at, era in enumerate(("modern", "legacy"))
    ]

    async def killing() -> None:
        await until(lambda: sum(one.made for one in customers) >= 2 * calls, limit=900)
        await until(lambda: all(len(one.words) > calls // 4 for one in visitors), limit=900)
        os.kill(await victim(urls[0]), signal.SIGKILL)

    killer = asyncio.create_task(killing()) if kill else None
    await asyncio.gather(
        shop(list(urls), customers, clients=4, calls=calls), *(visitor.visit() for visitor in visitors)
    )
    if killer is not None:
        await killer
    assert [failure for one in customers for failure in one.failures] == []
    assert kill or not sum(one.uncertain for one in customers)
    failures = [failure for one in visitors for failure in one.failures]
    if not kill:
        assert failures == []
    # Each of them has one call under way at a time, and that one may have been where the worker died.
    assert [text for text in failures if not any(word in text for word in INTERRUPTED)] == []
    assert max(len(one.failures) for one in visitors) <= 1, failures


async def four_workers(folder: Path, *, calls: int, kill: bool) -> None:
    async with child(write(folder), "--port", "0", "--workers", "4") as served:
        await everybody([address(served)], calls=calls, kill=kill)


async def two_machines(folder: Path, redis: RedisServer, *, calls: int) -> None:
    async with machines(folder, redis) as (one, two):
        await everybody([address(one), address(two)], calls=calls, kill=False)


@pytest.fixture(autouse=True)
def all_of_them() -> None:
    need("sdk")
    need("node")


def test_four_workers_serve_clients_of_three_libraries_and_one_is_killed(tmp_path: Path) -> None:
    run_limited(four_workers(tmp_path, calls=16, kill=True), 300)


@pytest.mark.slow
@pytest.mark.parametrize("kill", [False, True])
def test_four_workers_two_hundred_calls_of_each(tmp_path: Path, kill: bool) -> None:
    run_limited(four_workers(tmp_path, calls=200, kill=kill), 900)


@pytest.mark.slow
@pytest.mark.redis
def test_two_machines_two_hundred_calls_of_each(tmp_path: Path) -> None:
    with RedisServer() as redis:
        run_limited(two_machines(tmp_path, redis, calls=200), 900)
