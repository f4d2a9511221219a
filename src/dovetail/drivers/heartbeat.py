"""Heartbeats: a periodic timer, a periodic coroutine, and the ping of idle clients.

A `Heartbeat` stops when its function returns False, so that an idle process runs no timers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from ..errors import DovetailError, RequestTimeout, TransportError
from ..settings import Timeouts

if TYPE_CHECKING:
    from .duplex import Duplex

INITIALIZE_SECONDS: Final = 30.0
"""Seconds a client has to send ``initialize``, and to use its session afterwards."""


PING_SECONDS: Final = 30.0
"""Seconds that the client of an idle session has to respond to a ping."""

log = logging.getLogger("dovetail")

PING_TIMEOUTS: Final = Timeouts(connect=None, idle=None, total=PING_SECONDS)


class Heartbeat:
    """Calls ``beat`` every ``interval`` seconds on the running event loop, until it returns False or `stop`."""

    __slots__ = ("_beat", "_timer", "interval")

    def __init__(self, interval: float, beat: Callable[[], bool]) -> None:
        self.interval = interval
        self._beat = beat
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start the timer, unless it is running."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.interval, self._fire)

    def stop(self) -> None:
        """Stop the timer. `start` may follow."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _fire(self) -> None:
        self._timer = None
        if self._beat():
            self.start()


async def repeat(interval: float, work: Callable[[], Awaitable[object]]) -> None:
    """Await ``work()`` every ``interval`` seconds until cancelled. The first call is after one interval."""
    while True:
        await asyncio.sleep(interval)
        await work()


async def responds_to_ping(ping: Awaitable[Any], *, errors_count: bool) -> bool:
    """Whether the peer responds to ``ping``. With ``errors_count`` an error response counts as well."""
    try:
        await ping
    except DovetailError as error:
        if errors_count and not isinstance(error, RequestTimeout | TransportError):
            return True
        log.info("ping failed reason=%s", error.message)
        return False
    return True


class ConnectionHeartbeat:
    """Closes a connection whose client does not initialize in time, or does not respond to a ping.

    A legacy client that was idle for ``quiet`` seconds gets a ``ping``. On 2026-07-28 servers send no
    requests: listen streams show that a client is alive, and TCP keepalive detects lost connections.
    """

    def __init__(self, duplex: Duplex, *, begins: bool, quiet: float | None) -> None:
        self._duplex = duplex
        self._heard = 0
        self._loop = asyncio.get_running_loop()
        self._initialize = (
            self._loop.call_later(INITIALIZE_SECONDS, self._check_initialized) if begins else None
        )
        self._quiet = None if quiet is None else Heartbeat(quiet, self._check)
        self._pinging: asyncio.Task[None] | None = None
        if self._quiet is not None:
            self._quiet.start()

    def stop(self) -> None:
        for part in (self._initialize, self._pinging):
            if part is not None:
                part.cancel()
        if self._quiet is not None:
            self._quiet.stop()
            self._quiet = None  # it refers to this object, which refers to the connection

    def _check_initialized(self) -> None:
        if not self._duplex.endpoint.decoded_any:
            self._duplex.disconnect()

    def _check(self) -> bool:
        duplex, heard = self._duplex, self._heard
        self._heard = duplex.received_count
        if heard != duplex.received_count or duplex.endpoint.session is None or duplex.busy:
            return True
        self._pinging = self._loop.create_task(self._ping())
        return False

    async def _ping(self) -> None:
        ping = self._duplex.request("ping", None, PING_TIMEOUTS)
        if not await responds_to_ping(ping, errors_count=True):
            self._duplex.disconnect()
        elif self._quiet is not None and self._check():
            self._quiet.start()
