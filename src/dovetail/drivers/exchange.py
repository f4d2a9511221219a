"""One call in, one reply out: the driver for HTTP and for everything that has no lasting peer.

It runs in the task of whoever calls it and makes none of its own. Cancelling that task cancels the call; the
transport does so when the client hangs up.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from msgspec import Struct

from ..core.channel import Call, NoBackChannel, Service
from ..errors import DovetailError
from .run import Runner


class Writer(Protocol):
    """Where messages go that come before the reply.

    The first one usually turns a plain answer into an event stream, so a writer is asked for nothing until
    the service has something to say. Whatever `notify` took must reach the peer before the reply that
    `exchange` returns.
    """

    def notify(self, message: bytes) -> None:
        """Take one encoded notification. Never blocks, never raises; silent after the peer has gone."""
        ...

    async def drain(self) -> None:
        """Wait until the peer has taken enough of what was given to `notify`."""
        ...


class ExchangeChannel(Struct, eq=False):
    """What the service may do while it works on a call that has no way back."""

    call: Call
    writer: Writer

    def notify(self, method: str, params: Struct | None) -> None:
        if not self.call.cancelled:
            self.writer.notify(self.call.codec.encode_notification(method, params))

    async def request(self, method: str, params: Struct) -> Any:
        raise NoBackChannel

    async def drain(self) -> None:
        await self.writer.drain()


async def exchange(service: Service, call: Call, writer: Writer) -> tuple[bytes, DovetailError | None]:
    """Answer ``call``: the encoded reply, and the error in it if it is one (for the HTTP status).

    Write what ``writer`` was given, then the reply. Raises nothing but `asyncio.CancelledError`, after which
    nothing may be written any more.
    """
    data, error = await Runner(service).run(call, ExchangeChannel(call, writer))
    if data is None:
        raise asyncio.CancelledError
    return data, error
