"""Clients that disconnect while their requests are in flight.

A server reports a disconnect only to a task that waits for it, and such a task costs more than a quick request. So only
requests that are still in flight after two checks get one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from ....core.channel import Call
from ....core.limits import SharedLimit
from ....drivers.heartbeat import Heartbeat
from .body_reader import Work
from .http_exchange import Exchange, HttpService

_CHECK_INTERVAL: Final = 0.035
"""Seconds between two checks of the requests in flight. A request is watched from its second check on."""


class Disconnects:
    """The requests of one app that may lose their clients."""

    def __init__(self, service: HttpService, continuing: SharedLimit) -> None:
        self._service = service
        self._continuing = continuing
        """Counts legacy calls that continue although their client has disconnected."""
        self.requests: dict[Exchange, tuple[Work, Sequence[Call]]] = {}
        """The task and the calls of each request in flight."""
        self.watches: dict[Exchange, DisconnectWatch] = {}
        self.left: dict[Exchange, int] = {}
        """The requests whose clients have disconnected, and how many of their calls are counted."""
        self._checks = Heartbeat(_CHECK_INTERVAL, self._check)
        self._idle = True
        self._seen: set[Exchange] = set()

    def begin(self, exchange: Exchange, task: Work, calls: Sequence[Call]) -> None:
        """``task`` serves ``calls`` from now until `end`; a disconnect in between may cancel them."""
        if self._idle:
            self._idle = False
            self._checks.start()
        self.requests[exchange] = (task, calls)

    def end(self, exchange: Exchange) -> None:
        """The calls of a request have ended."""
        self.requests.pop(exchange, None)
        if self.watches or self.left:
            self.leave(exchange)

    def leave(self, exchange: Exchange) -> None:
        """The request is over, and all its calls are."""
        self._continuing.release(self.left.pop(exchange, 0))
        self.ignore(exchange)

    def ignore(self, exchange: Exchange) -> None:
        """Its disconnect does not matter any more, but its calls continue."""
        watch = self.watches.pop(exchange, None)
        if watch is not None:
            watch.stop()

    def _check(self) -> bool:
        requests = set(self.requests)
        for exchange in (requests & self._seen) - self.watches.keys():
            self.watches[exchange] = DisconnectWatch(exchange, partial(self.lost, exchange))
        self._seen = requests
        self._idle = not requests
        return not self._idle

    def lost(self, exchange: Exchange) -> None:
        """The client of a request has disconnected.

        Streamable HTTP 2026-07-28, Cancellation: a closed stream cancels the request. Up to 2025-11-25, Sending
        Messages: "Disconnection SHOULD NOT be interpreted as the client cancelling its request"; `abandoned_calls` of
        `Limits` bounds how many continue. A cancelled call counts as in flight until its handler has ended.
        """
        task, calls = self.requests.get(exchange, (None, ()))
        running = [call for call in calls if not call.cancelled]
        if exchange in self.left or not running or task is None:
            return
        for call in running:
            self._service.client_disconnected(call)
        if not running[0].revision.modern and self._continuing.acquire(len(running)):
            self.left[exchange] = len(running)
        else:
            self.cancel(exchange, task, running)

    def cancel(self, exchange: Exchange, task: Work, calls: Sequence[Call]) -> None:
        """Cancel the calls of a client that has disconnected."""
        self.left[exchange] = 0
        for call in calls:
            call.cancelled = True
        task.cancel()


class DisconnectWatch:
    """Waits for the disconnect of one client, then calls ``lost``, once."""

    __slots__ = ("_lost", "_task", "disconnected", "exchange")

    def __init__(self, exchange: Exchange, lost: Callable[[], object]) -> None:
        self.exchange = exchange
        self._lost = lost
        self.disconnected = False
        self._task: Work | None = asyncio.get_running_loop().create_task(self._wait())

    async def _wait(self) -> None:
        await self.exchange.disconnected()
        self.found()

    def found(self) -> None:
        """The client has disconnected."""
        if not self.disconnected:
            self.disconnected = True
            self._lost()

    def stop(self) -> None:
        task, self._task = self._task, None  # its result references this object
        if task is not None:
            task.cancel()
