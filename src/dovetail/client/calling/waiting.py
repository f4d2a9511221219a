"""A request that waits for its answer, and what it is to a link that answers each request by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from math import inf
from typing import Any, Protocol

from msgspec import Struct

from ...core.channel import Answer, Link
from ...errors import DovetailError
from ...wire.frames import RequestId
from ..config import OnProgress


class Waiting(Struct, eq=False):
    """A request of ours that has no answer yet."""

    method: str
    future: asyncio.Future[Answer]
    on_progress: OnProgress | None
    idle: float = inf
    idle_at: float = inf
    total_at: float = inf
    task: asyncio.Task[Any] | None = None
    """The task to interrupt: set while the caller itself runs the exchange."""
    error: DovetailError | None = None
    """Why it was interrupted."""
    status: int = 0
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
