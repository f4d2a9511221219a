"""A request that waits for its answer, and what it is to a link that answers each request by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Protocol

from msgspec import Struct

from ..core.channel import Answer, Link
from ..errors import DovetailError
from ..wire.frames import RequestId

OnProgress = Callable[[float, float | None, str | None], Any]


class Waiting:
    """A request of ours that has no answer yet."""

    __slots__ = ("error", "future", "idle", "idle_at", "method", "on_progress", "status", "task", "total_at")

    def __init__(self, method: str, future: asyncio.Future[Answer], on_progress: OnProgress | None) -> None:
        self.method = method
        self.future = future
        self.on_progress = on_progress
        self.idle = inf
        self.idle_at = inf
        self.total_at = inf
        self.task: asyncio.Task[Any] | None = None
        """The task to interrupt: set while the caller itself runs the exchange."""
        self.error: DovetailError | None = None
        """Why it was interrupted."""
        self.status = 0
        """The HTTP status of the answer, where there is one."""


class Outgoing(Struct, eq=False):
    """A request as an exchanging link needs it."""

    id: RequestId
    method: str
    params: Any
    data: bytes
    headers: Mapping[str, str] | None
    waiting: Waiting

    @property
    def answered(self) -> bool:
        return self.waiting.future.done()


class ExchangingLink(Link, Protocol):
    """A link on which each request has its own answer: HTTP."""

    async def exchange(self, outgoing: Outgoing) -> None:
        """Send the request and hand everything that comes back to the receiver, until it is answered.

        Raises:
            TransportError: there will be no answer.
        """
        ...


def fail(waiting: Waiting, error: DovetailError) -> None:
    """End a request from outside: by its future, or by interrupting the task that runs the exchange."""
    if waiting.task is not None:
        waiting.error = error
        if waiting.task is not asyncio.current_task():  # its own exchange found out, and raises by itself
            waiting.task.cancel()
    elif not waiting.future.done():
        waiting.future.set_exception(error)
