"""A receiver that remembers, and pairs of links of every kind."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from dovetail.settings import Limits
from dovetail.transports import memory, tcp
from dovetail.transports.stdio import open_link
from tests.support.waiting import HANG


class Recorder:
    """Remembers everything a link tells it. ``echo`` sends every message back."""

    def __init__(self, limits: Limits | None = None, *, echo: bool = False) -> None:
        self.limits = limits or Limits()
        self.echo = echo
        self.link: Any = None
        self.messages: list[bytes] = []
        self.too_large: list[int] = []
        self.has_ended = False
        self.losses: list[Any] = []
        self._news = asyncio.Event()

    def connected(self, link: Any) -> None:
        self.link = link
        self._news.set()

    def received(self, message: bytes) -> None:
        self.messages.append(message)
        if self.echo:
            self.link.send(message)
        self._news.set()

    def oversized(self, limit: int) -> None:
        self.too_large.append(limit)
        self._news.set()

    def ended(self) -> None:
        self.has_ended = True
        self._news.set()

    def lost(self, error: Any) -> None:
        self.losses.append(error)
        self._news.set()

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait until something reported by the link makes ``condition`` true."""
        async with asyncio.timeout(HANG):
            while not condition():
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def memory_pair(left: Recorder, right: Recorder, limits: Limits) -> AsyncIterator[None]:
    memory.connect(left, right, limits=limits)
    yield


@asynccontextmanager
async def tcp_pair(left: Recorder, right: Recorder, limits: Limits) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: tcp.SocketLink(right, limits), "127.0.0.1", 0)
    try:
        await tcp.connect(left, "127.0.0.1", server.sockets[0].getsockname()[1], limits=limits)
        await right.until(lambda: right.link)
        yield
    finally:
        server.close()
        await server.wait_closed()


@asynccontextmanager
async def unix_pair(left: Recorder, right: Recorder, limits: Limits) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "socket")
        server = await loop.create_unix_server(lambda: tcp.SocketLink(right, limits), path)
        try:
            await tcp.connect(left, path=path, limits=limits)
            await right.until(lambda: right.link)
            yield
        finally:
            server.close()
            await server.wait_closed()


@asynccontextmanager
async def pipe_pair(left: Recorder, right: Recorder, limits: Limits) -> AsyncIterator[None]:
    left.limits = right.limits = limits
    (to_right, from_left), (to_left, from_right) = os.pipe(), os.pipe()
    await open_link(left, to_left, from_left)  # type: ignore[arg-type]
    await open_link(right, to_right, from_right)  # type: ignore[arg-type]
    yield


PAIRS = {"memory": memory_pair, "tcp": tcp_pair, "unix": unix_pair, "pipes": pipe_pair}


@asynccontextmanager
async def pair(
    kind: str, limits: Limits | None = None, *, echo: bool = False
) -> AsyncIterator[tuple[Recorder, Recorder]]:
    """Two recorders joined by a pair of links; whatever the test leaves open is closed."""
    left, right = Recorder(), Recorder(echo=echo)
    async with PAIRS[kind](left, right, limits or Limits()):
        try:
            yield left, right
        finally:
            for one in (left, right):
                one.link.abort()
            for one in (left, right):
                await one.until(lambda one=one: one.losses)
