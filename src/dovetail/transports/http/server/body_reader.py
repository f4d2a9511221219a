"""Timeout for request bodies.

One periodic check serves all of them, so a request costs neither a timer nor a task.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ....core.limits import SharedLimit
from ....errors import TransportError
from .http_exchange import HTTP_FLUSH

Work = asyncio.Task[Any]


class BodyReader:
    """The request bodies that one app is reading. Call `check` periodically."""

    def __init__(self, limit: int, seconds: float, buffered: SharedLimit) -> None:
        self.limit = limit
        """`Limits.max_message_bytes`."""
        self.buffered = buffered
        self.now = 0.0
        """The time of the event loop at the last check."""
        self.reading: dict[Work, float] = {}
        """The tasks that wait for a body, and since when."""
        self._seconds = seconds
        self._late: set[Work] = set()

    def timed_out(self, task: Work) -> TransportError | None:
        """The reason why a reading task was cancelled here; None if something else cancelled it."""
        if task not in self._late:
            return None
        self._late.discard(task)
        task.uncancel()
        return TransportError("the body took too long", cause="idle")

    def check(self, now: float) -> None:
        """Cancel the tasks whose body has taken longer than `HttpOptions.body_timeout`."""
        self.now = now
        for task, begun in list(self.reading.items()):
            if now - begun > self._seconds:
                self._cancel(task)

    async def close(self) -> None:
        """Cancel the remaining reads; their requests are responded to."""
        tasks = list(self.reading)
        for task in tasks:
            self._cancel(task)
        if tasks:
            await asyncio.wait(tasks, timeout=HTTP_FLUSH)

    def _cancel(self, task: Work) -> None:
        if not task.done():
            self._late.add(task)
            task.cancel()
