"""The traffic: a few clients per transport that do a bit of everything, over and over, and come and go."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

from dovetail import Client, ProtocolError, RequestTimeout

from .histogram import Histogram

Deed = Callable[[Client], Awaitable[None]]
CONNECTIONS = 3
"""Clients at work on each transport at the same time."""
PAUSE = 0.04
"""Seconds between two deeds of a client: the machine is kept busy, not full. No figure counts them."""
STAY = 200
"""Deeds after which a client leaves and another one comes; the first of each transport stays to the end."""


class Wrong(Exception):
    """The server answered something else."""


def want(condition: bool, found: object) -> None:
    if not condition:
        raise Wrong(str(found)[:200])


async def echo(client: Client) -> None:
    text = "x" * random.randrange(1, 2000)
    result = await client.call_tool("echo", {"text": text})
    want(result.text == text, result)


async def add(client: Client) -> None:
    result = await client.call_tool("add", {"a": 20, "b": 22})
    want(result.data == {"sum": 42}, result)


async def nested(client: Client) -> None:
    order = {"customer": {"name": "Ada", "city": "Oslo"}, "lines": [{"sku": "a", "count": 7}]}
    result = await client.call_tool("nested", {"order": order})
    want(result.text == "7", result)


async def tell(client: Client) -> None:
    heard: list[float] = []

    def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    result = await client.call_tool("tell", {"text": "hi"}, on_progress=hear)
    want(result.text == "hi" and len(heard) == 1, heard)


async def ask(client: Client) -> None:
    result = await client.call_tool("ask", {})
    want(result.text == "yes", result)


async def several(client: Client) -> None:
    await asyncio.gather(*(echo(client) for _ in range(8)))


async def look(client: Client) -> None:
    want(len(await client.list_tools(fresh=True)) == 6, "tools")
    contents = (await client.read_resource("bench://text")).contents
    want(contents[0].text == "some text", contents)
    prompt = await client.get_prompt("greet", {"name": "Ada"})
    want(getattr(prompt.messages[0].content, "text", "") == "Say hello to Ada.", prompt)


async def give_up(client: Client) -> None:
    """A call that is cancelled half-way."""
    try:
        await client.call_tool("nap", {"seconds": 5.0}, timeout=0.01)
    except RequestTimeout:
        return
    raise Wrong("the nap was over too soon")


async def fail(client: Client) -> None:
    """Wrong arguments: an error through 2025-06-18, a result the model may read after it."""
    try:
        result = await client.call_tool("add", {"a": "no number"}, check=False)
        want(result.is_error, result)
    except ProtocolError as error:
        want(error.code == -32602, error)


DEEDS: list[tuple[Deed, int]] = [
    (echo, 30),
    (add, 20),
    (nested, 15),
    (tell, 10),
    (several, 5),
    (ask, 8),
    (look, 6),
    (fail, 4),
    (give_up, 1),
]
"""Deed and how often it comes up."""


async def accept(request: Any) -> dict[str, Any]:
    return {"action": "accept", "content": {"ok": True}}


class Lane:
    """One way to the server, and what is seen on it. ``stayer`` is the target of the client that stays."""

    def __init__(self, name: str, target: Any, revision: str, stayer: Any = None) -> None:
        self.name = name
        self.target = target
        self.stayer = target if stayer is None else stayer
        self.revision = revision
        self.times = Histogram()
        """Of the deeds since it was last emptied; those that are given up on purpose are left out."""
        self.deeds = 0
        self.visits = 0
        self.errors: list[str] = []
        # The oldest revisions have no questions of this kind.
        able = [(deed, weight) for deed, weight in DEEDS if deed is not ask or revision != "2024-11-05"]
        self._able, self._weights = [deed for deed, _ in able], [weight for _, weight in able]

    async def visit(self) -> None:
        """Come, do a bit, and go."""
        async with Client(self.target, revision=self.revision) as client:
            await echo(client)

    async def run(self, until: float) -> None:
        """Work until the clock says so."""
        await asyncio.gather(*(self._worker(until, number) for number in range(CONNECTIONS)))

    async def _worker(self, until: float, number: int) -> None:
        choose = random.Random(f"{self.name}{number}")
        target, stay = (self.target, STAY) if number else (self.stayer, None)
        while time.monotonic() < until:
            try:
                await self._stay(target, stay, until, choose)
            except Exception as error:
                self.errors.append(f"{self.name}: {type(error).__name__}: {error}"[:300])
                if len(self.errors) > 20:
                    return
                await asyncio.sleep(0.2)

    async def _stay(self, target: Any, stay: int | None, until: float, choose: random.Random) -> None:
        async with Client(target, revision=self.revision, on_elicit=accept) as client:
            self.visits += 1
            while stay != 0 and time.monotonic() < until:
                stay = None if stay is None else stay - 1
                deed = choose.choices(self._able, self._weights)[0]
                begun = time.perf_counter()
                await deed(client)
                if deed is not give_up:
                    self.times.add(time.perf_counter() - begun)
                self.deeds += 1
                await asyncio.sleep(PAUSE)

    def take(self) -> tuple[float, float]:
        """Deeds per second at work, and the p99 in seconds, since the last time."""
        times = self.times
        found = (times.count / times.total if times.count else 0.0, times.quantile(0.99))
        times.clear()
        return found
