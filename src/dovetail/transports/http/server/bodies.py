"""Request bodies: never more bytes than allowed, never more time than allowed.

A body that has arrived already costs no timer: requests that wait for theirs stand in a table, which a clock
of the app looks through once a second.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ....errors import RemoteProtocolError, TransportError
from .asgi import Message, Receive


class Bodies:
    """The bodies being read by one app. Call `sweep` every now and then."""

    def __init__(self, limit: int, seconds: float) -> None:
        self.limit = limit
        self._seconds = seconds
        self.now = 0.0
        """The time of the event loop at the last sweep."""
        self.reading: dict[asyncio.Task[Any], float] = {}
        """The tasks that wait for a body, and since when."""
        self._late: set[asyncio.Task[Any]] = set()

    async def read(self, receive: Receive, declared: bytes | None, task: asyncio.Task[Any]) -> bytes:
        """The whole body; ``declared`` is its Content-Length, ``task`` the one that runs this.

        Raises:
            RemoteProtocolError: (``message_too_large``) it exceeds the limit.
            TransportError: the client went away (``eof``), or took too long (``idle``).
        """
        self.reading[task] = self.now
        try:
            return await self.go_on(receive, await receive(), declared)
        except asyncio.CancelledError:
            self.given_up(task)
            raise
        finally:
            del self.reading[task]

    async def go_on(self, receive: Receive, message: Message, declared: bytes | None) -> bytes:
        """The whole body, of which ``message`` is the beginning; raises as `read` does."""
        if declared is not None and declared.isdigit() and int(declared[:20]) > self.limit:
            raise too_large(self.limit)
        parts: list[bytes] = []
        size = 0
        while True:
            if message["type"] == "http.disconnect":
                raise TransportError("the client went away", cause="eof")
            part: bytes = message.get("body", b"")
            size += len(part)
            if size > self.limit:
                raise too_large(self.limit)
            parts.append(part)
            if not message.get("more_body"):
                return b"".join(parts)
            message = await receive()

    def given_up(self, task: asyncio.Task[Any]) -> None:
        """Tell the two reasons apart for which a task that reads is cancelled.

        Raises:
            TransportError: (``idle``) the sweep did it.
        """
        if task in self._late:
            self._late.discard(task)
            task.uncancel()
            raise TransportError("the body took too long", cause="idle") from None

    def sweep(self, now: float) -> None:
        """Give up the bodies that have taken too long; ``now`` is the time of the event loop."""
        self.now = now
        for task, begun in list(self.reading.items()):
            if now - begun > self._seconds and not task.done():
                self._late.add(task)
                task.cancel()


def too_large(limit: int) -> RemoteProtocolError:
    """What a client is told whose message exceeds ``limit`` bytes."""
    return RemoteProtocolError(
        "message_too_large",
        f"the message exceeds {limit} bytes",
        data={"maxSize": limit, "unit": "bytes"},
    )
