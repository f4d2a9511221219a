"""Request bodies: never more bytes than allowed, never more time than allowed.

A body that has arrived already costs no timer: requests that wait for theirs stand in a table, which a clock
of the app looks through once a second.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ...errors import RemoteProtocolError, TransportError
from .asgi import Receive


class Bodies:
    """The bodies being read by one app. Call `sweep` every now and then."""

    def __init__(self, limit: int, seconds: float) -> None:
        self._limit = limit
        self._seconds = seconds
        self._now = 0.0
        self._reading: dict[asyncio.Task[Any], float] = {}
        self._late: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._reading)

    async def read(self, receive: Receive, declared: bytes | None, task: asyncio.Task[Any]) -> bytes:
        """The whole body; ``declared`` is its Content-Length, ``task`` the one that runs this.

        Raises:
            RemoteProtocolError: (``message_too_large``) it exceeds the limit.
            TransportError: the client went away (``eof``), or took too long (``idle``).
        """
        if declared is not None and len(declared) > 3 and declared.isdigit() and int(declared) > self._limit:
            raise too_large(self._limit)
        self._reading[task] = self._now
        try:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise TransportError("the client went away", cause="eof")
            body: bytes = message.get("body", b"")
            if message.get("more_body"):
                body = await self._read_rest(receive, body)
        except asyncio.CancelledError:
            if task not in self._late:
                raise
            self._late.discard(task)
            task.uncancel()
            raise TransportError("the body took too long", cause="idle") from None
        finally:
            del self._reading[task]
        if len(body) > self._limit:
            raise too_large(self._limit)
        return body

    async def _read_rest(self, receive: Receive, first: bytes) -> bytes:
        parts = [first]
        size = len(first)
        more = True
        while more:
            if size > self._limit:
                raise too_large(self._limit)
            message = await receive()
            if message["type"] == "http.disconnect":
                raise TransportError("the client went away", cause="eof")
            part: bytes = message.get("body", b"")
            size += len(part)
            parts.append(part)
            more = message.get("more_body", False)
        return b"".join(parts)

    def sweep(self, now: float) -> None:
        """Give up the bodies that have taken too long; ``now`` is the time of the event loop."""
        self._now = now
        for task, begun in list(self._reading.items()):
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
