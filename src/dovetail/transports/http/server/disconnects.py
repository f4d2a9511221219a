"""Who is still there: noticing that a client has hung up while its call runs.

ASGI tells of a disconnect only to whoever waits for it, and a task that waits costs more than a quick call.
So calls are put into a table, and only one that has been there for a while gets a task that waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from .asgi import Receive

INTERVAL: Final = 0.035
"""Seconds between two looks. A call is watched from its second look on, so after twice this time at most."""


class Watching:
    """The calls of one app that end when their client hangs up."""

    def __init__(self) -> None:
        self.calls: dict[asyncio.Task[Any], Receive] = {}
        """The task of each call, and what would tell us. Put a call in, `start` if idle, `leave` when done."""
        self.idle = True
        """Nobody looks; call `start` after putting a call in."""
        self._seen: set[asyncio.Task[Any]] = set()
        self.watches: dict[asyncio.Task[Any], Watch] = {}
        """The calls that have taken so long that somebody waits for their client to hang up."""

    def start(self) -> None:
        """Begin to look every now and then, for as long as there are calls."""
        self.idle = False
        asyncio.get_running_loop().call_later(INTERVAL, self._look)

    def leave(self, task: asyncio.Task[Any]) -> bool:
        """The call is over; whether its client had hung up."""
        self.calls.pop(task, None)
        watch = self.watches.pop(task, None)
        if watch is None:
            return False
        watch.stop()
        return watch.disconnected

    def _look(self) -> None:
        calls = set(self.calls)
        for task in (calls & self._seen) - self.watches.keys():
            self.watches[task] = Watch(self.calls[task], task.cancel)
        self._seen = calls
        if calls:
            asyncio.get_running_loop().call_later(INTERVAL, self._look)
        else:
            self.idle = True


class Watch:
    """Waits for the disconnect of one client, then calls ``gone``."""

    __slots__ = ("_gone", "_receive", "_task", "disconnected")

    def __init__(self, receive: Receive, gone: Callable[[], object]) -> None:
        self._receive = receive
        self._gone = gone
        self.disconnected = False
        self._task = asyncio.get_running_loop().create_task(self._wait())

    async def _wait(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.disconnected = True
        self._gone()

    def stop(self) -> None:
        self._task.cancel()
