"""Numbered updates on two machines with one Redis, while streams move and connections to Redis are cut.

Every update reaches every stream that has subscribed to it: itself, a later one of the same resource, or the word that
anything may have changed (an update without a number). A seed makes the run; what the network does with it varies.
"""

import asyncio
import contextlib
import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.test_failover import site
from tests.http.children import NEWEST, child
from tests.http.talk import stream
from tests.support.aio import run_limited
from tests.support.redis import RedisServer
from tests.support.waiting import turns
from tests.support.web import Site, Web

FILE = """
from dovetail import Server

server = Server("numbers")

@server.resource("numbers://{name}")
async def value(name: str) -> str:
    return name

@server.tool
async def update(name: str, number: int) -> str:
    await server.notify_resource_updated(f"numbers://{name}", {"number": number})
    return "told"
"""
UPDATED = "notifications/resources/updated"
NUMBER = "io.dovetail/metadata"
pytestmark = pytest.mark.redis


class Ear:
    """A legacy session whose stream moves between machines."""

    def __init__(self, sites: list[Site], dice: random.Random) -> None:
        self.sites, self.dice = sites, dice
        self.uris: list[str] = []
        self.newest: dict[str, float] = {}
        """The greatest number heard of each resource; infinite for anything may have changed."""
        self.moves = self.announced = 0
        self.changed = asyncio.Event()
        self._last: str | None = None
        self._reading: list[asyncio.Task[None]] = []
        self._open = asyncio.Event()
        """Something has come on the newest stream."""

    def anywhere(self) -> Site:
        return self.dice.choice(self.sites)

    async def begin(self) -> None:
        self.session, _ = await Web(self.anywhere()).initialize(NEWEST)
        await self.move()

    async def subscribe(self, uri: str) -> None:
        await self.ask("resources/subscribe", {"uri": uri})
        self.uris.append(uri)

    async def ask(self, method: str, params: dict[str, Any]) -> None:
        """Until it is answered: without Redis it may be refused for a while."""
        while True:
            answer = await Web(self.anywhere()).legacy(NEWEST, self.session, method, params)
            if answer.status == 200 and b'"result"' in answer.body:
                return
            await turns()

    async def move(self) -> None:
        """Resume the stream on any worker: after the last received event, or in parallel to the open one."""
        self.moves += 1
        if self._reading:
            await self._open.wait()  # who lets go of a stream that it never saw could not say where to go on
        if self.dice.random() < 0.5:
            await self.end()
            self._open.clear()
            self._reading = [asyncio.create_task(self._read(self._last))]
            return
        await self.end(but=1)
        self._open.clear()
        self._reading.append(asyncio.create_task(self._read(None)))

    async def end(self, but: int = 0) -> None:
        """Let go of all streams, but of the newest."""
        while len(self._reading) > but:
            old = self._reading.pop(0)
            old.cancel()
            await asyncio.wait([old])

    async def _read(self, last: str | None) -> None:
        me = asyncio.current_task()
        while self._reading and self._reading[-1] is me:  # where it has moved, nothing comes here any more
            headers = {} if last is None else {"Last-Event-ID": last}
            with contextlib.suppress(AssertionError, OSError, EOFError):
                connection, events = await stream(self.anywhere(), self.session, **headers)
                try:
                    async for event in events:
                        self._take(event)
                        if self._reading[-1:] == [me]:
                            self._open.set()
                finally:
                    await connection.close()
            await turns()
            last = self._last

    def _take(self, event: Any) -> None:
        self._last = event.id or self._last
        message = json.loads(event.data) if event.data else {}
        if message.get("method") != UPDATED:
            return
        params = message["params"]
        note = params.get("_meta", {}).get(NUMBER)
        self.announced += note is None
        number = float("inf") if note is None else note["number"]
        self.newest[params["uri"]] = max(number, self.newest.get(params["uri"], 0))
        self.changed.set()

    async def hears(self, uri: str, number: int) -> None:
        while self.newest.get(uri, 0) < number:
            self.changed.clear()
            await self.changed.wait()

    def looked(self, number: int) -> None:
        """All updates up to ``number`` are known now; later ones must be delivered."""
        self.newest = {uri: min(newest, number) for uri, newest in self.newest.items()}


class Trial:
    def __init__(self, sites: list[Site], redis: RedisServer, seed: int) -> None:
        self.dice = random.Random(seed)
        self.redis = redis
        self.ears = [Ear(sites, random.Random(self.dice.random())) for _ in range(4)]
        self.number = self.cuts = 0

    async def run(self, rounds: int) -> None:
        for ear in self.ears:
            await ear.begin()
            for name in range(3):
                await ear.subscribe(f"numbers://first{name}")
        try:
            for turn in range(rounds):
                await self._round(turn)
        finally:
            for ear in self.ears:
                await ear.end()

    async def _round(self, turn: int) -> None:
        """Send some updates, some of them for a subscription made at the same time, and inject some faults."""
        wanted: list[tuple[Ear, str, int]] = []

        async def one(ear: Ear) -> None:
            uri = self.dice.choice(ear.uris)
            if self.dice.random() < 0.4:
                uri = f"numbers://n{turn}x{self.dice.randrange(2)}"
                await ear.subscribe(uri)
            self.number += 1
            number = self.number
            listeners = [each for each in self.ears if uri in each.uris]
            await ear.ask("tools/call", {"name": "update", "arguments": {"name": uri[10:], "number": number}})
            wanted.extend((each, uri, number) for each in listeners)

        async def trouble() -> None:
            for ear in self.ears:
                if self.dice.random() < 0.4:
                    await ear.move()
            if self.dice.random() < 0.3:
                self.cuts += 1
                await asyncio.to_thread(self.redis.ask, "CLIENT", "KILL", "TYPE", "normal")

        await asyncio.gather(*(one(ear) for ear in self.ears), trouble())
        try:
            async with asyncio.timeout(90):
                for ear, uri, number in wanted:
                    await ear.hears(uri, number)
        except TimeoutError:
            missing = [
                (self.ears.index(ear), uri, number, ear.newest.get(uri))
                for ear, uri, number in wanted
                if ear.newest.get(uri, 0) < number
            ]
            raise AssertionError(f"round {turn}: lost without a word: {missing}") from None
        for ear in self.ears:
            ear.looked(self.number)


async def two_machines(folder: Path, seed: int, rounds: int) -> None:
    file = folder / "numbers.py"
    file.write_text(FILE)
    with RedisServer() as redis:
        options = (str(file), "--port", "0", "--workers", "2", "--store", redis.url)
        async with child(*options) as one, child(*options) as two:
            trial = Trial([site(one), site(two)], redis, seed)
            await trial.run(rounds)
            moves, announced = sum(e.moves for e in trial.ears), sum(e.announced for e in trial.ears)
            print(
                f"seed {seed}: {trial.number} updates, {moves} moves, {trial.cuts} cuts, {announced} announced"
            )


@pytest.mark.parametrize("seed", [1, 2])
def test_a_few_seeds(tmp_path: Path, seed: int) -> None:
    run_limited(two_machines(tmp_path, seed, 8), 400)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 14))
def test_many_rounds(tmp_path: Path, seed: int) -> None:
    run_limited(two_machines(tmp_path, seed, 100), 1500)
