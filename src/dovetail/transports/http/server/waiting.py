"""What clients keep us waiting for: bodies that do not come, and clients that have hung up.

Neither costs a quick request a timer or a task. Requests that wait for their body, and calls that end when their
client leaves, stand in tables; a clock looks through them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ....core.budget import Account
from ....core.channel import Call
from ....errors import TransportError
from ....settings import HANGUP_LOOK, HTTP_FLUSH
from .exchange import Exchange

Work = asyncio.Task[Any]


class Bodies:
    """The bodies being read by one app. Call `sweep` every now and then."""

    def __init__(self, limit: int, seconds: float, account: Account) -> None:
        self.limit = limit
        self.account = account
        self._seconds = seconds
        self.now = 0.0
        """The time of the event loop at the last sweep."""
        self.reading: dict[Work, float] = {}
        """The tasks that wait for a body, and since when."""
        self._late: set[Work] = set()

    def given_up(self, task: Work) -> TransportError | None:
        """Why a task that was reading is cancelled: the body took too long, or (None) somebody else did it."""
        if task not in self._late:
            return None
        self._late.discard(task)
        task.uncancel()
        return TransportError("the body took too long", cause="idle")

    def sweep(self, now: float) -> None:
        """Give up the bodies that have taken too long; ``now`` is the time of the event loop."""
        self.now = now
        for task, begun in list(self.reading.items()):
            if now - begun > self._seconds:
                self._give_up(task)

    async def close(self) -> None:
        """Give up all that are left, and let their clients be told."""
        tasks = list(self.reading)
        for task in tasks:
            self._give_up(task)
        if tasks:
            await asyncio.wait(tasks, timeout=HTTP_FLUSH)

    def _give_up(self, task: Work) -> None:
        if not task.done():
            self._late.add(task)
            task.cancel()


class Watching:
    """The calls of one app that end when their client hangs up.

    Hosts tell of a disconnect only to whoever waits for it, and a task that waits costs more than a quick call. So
    only a call that has been seen at two looks gets one.
    """

    def __init__(self) -> None:
        self.calls: dict[Call, tuple[Work, Exchange]] = {}
        """Who works on each call, and who would tell us. Put a call in, `start` if idle, `leave` when done."""
        self.idle = True
        """Nobody looks; call `start` after putting a call in."""
        self._seen: set[Call] = set()
        self.watches: dict[Call, Watch] = {}
        """The calls that have taken so long that somebody waits for their client to hang up."""

    def start(self) -> None:
        """Begin to look every now and then, for as long as there are calls."""
        self.idle = False
        asyncio.get_running_loop().call_later(HANGUP_LOOK, self._look)

    def leave(self, call: Call) -> None:
        """The call is over; nobody needs to wait for its client any more."""
        watch = self.watches.pop(call, None)
        if watch is not None:
            watch.stop()

    def _look(self) -> None:
        calls = set(self.calls)
        for call in (calls & self._seen) - self.watches.keys():
            self.watches[call] = watch_call(call, *self.calls[call])
        self._seen = calls
        if calls:
            asyncio.get_running_loop().call_later(HANGUP_LOOK, self._look)
        else:
            self.idle = True


class Watch:
    """Waits for the disconnect of one client, then calls ``gone``."""

    __slots__ = ("_exchange", "_task", "disconnected", "gone")

    def __init__(self, exchange: Exchange, gone: Callable[[], object]) -> None:
        self._exchange = exchange
        self.gone = gone
        self.disconnected = False
        self._task = asyncio.get_running_loop().create_task(self._wait())

    async def _wait(self) -> None:
        await self._exchange.disconnected()
        self.disconnected = True
        self.gone()

    def stop(self) -> None:
        self._task.cancel()


def watch_call(call: Call, task: Work, exchange: Exchange) -> Watch:
    """Cancel ``call`` when its client hangs up. `Watch.stop` it when the call is over.

    Streamable HTTP 2026-07-28, Cancellation: a closed stream cancels the request.
    """

    def give_up() -> None:
        call.cancelled = True
        task.cancel()

    return Watch(exchange, give_up)
