"""Event streams: one response that carries messages as they come.

`EventStream` turns messages into a response body. Whoever has something to say calls `write`, which never
blocks; whoever can wait calls `drain`. What nobody waits for is handed to the host in one go where it takes it
so, else flushed by a short task of its own. A client that does not read makes the buffer grow to its limit, and then
loses the stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from msgspec import Struct

from ....core.principal import Principal
from ....errors import Refusal, TransportError
from ....wire.sse import COMMENT, encode_event
from .http_exchange import Exchange, Headers, Sink


def crowded(limit: int, principal: Principal | None, owners: Collection[Principal | None]) -> Refusal | None:
    """Why ``principal`` gets no further stream beside those of ``owners``; one of many gets half at most."""
    if len(owners) < limit and (
        principal is None or sum(owner == principal for owner in owners) < max(1, limit // 2)
    ):
        return None
    return Refusal(1060, message="too many streams are open", retry_after=5)


class EventStream(Struct, eq=False):
    """One event-stream response. `write` opens it; whoever made it must `finish` it."""

    exchange: Exchange
    limit: int
    """Bytes that may wait to be sent; one message more is taken, so that a large one can be sent at all."""
    patience: float
    """Seconds the client of an abandoned stream has to take the end of it."""
    headers: Headers = ()
    """Further lines of the head."""
    principal: Principal | None = None
    """Whose stream it is, if that is known; see `crowded`."""
    closed: bool = False
    """Nothing more is taken."""
    pending: list[bytes] = []
    """What waits to be sent."""
    on_abandon: Callable[[], object] | None = None
    """Called when the stream is given up because its client does not read, or has gone."""
    _size: int = 0
    _flying: int = 0
    """Bytes of those that are being sent."""
    _sink: Sink | None = None
    _ended: bool = False
    _woken: bool = False
    _task: asyncio.Task[None] | None = None
    _flushed: asyncio.Future[None] | None = None
    _closer: asyncio.Task[None] | None = None
    _done: asyncio.Event | None = None

    @property
    def started(self) -> bool:
        """The response has begun, or is about to: from now on its status cannot change."""
        return self._sink is not None or bool(self.pending)

    @property
    def full(self) -> bool:
        """More waits to be sent than should."""
        return self._size > self.limit

    def write(self, data: bytes, *, now: bool = False) -> None:
        """Take encoded event-stream text. Silent once the stream is over.

        What is written in one turn of the loop leaves together, at its end; or ``now``, where the host takes it so.
        """
        if self.closed:
            return
        if self._size - self._flying > self.limit:
            # The client does not read: give up its stream rather than our memory.
            self._give_up()
            return
        self._size += len(data)
        self.pending.append(data)
        if now:
            self._wake()
        elif not self._woken and self._flushed is None:
            self._woken = True
            asyncio.get_running_loop().call_soon(self._wake)

    def begin(self, data: bytes) -> None:
        """Take what comes before the first `write`, and leaves with it."""
        self._size += len(data)
        self.pending.append(data)

    def notify(self, message: bytes) -> None:
        self.write(encode_event(message))

    def keep_alive(self) -> None:
        """Say that we are still here, if the stream has begun and nothing is waiting to be sent."""
        if self._sink is not None and not self._size:
            self.write(COMMENT)

    async def drain(self) -> None:
        """Send what is waiting; returns when the host has taken it."""
        while self._flushed is not None:
            await asyncio.wait({self._flushed})
        if self.pending:
            await self._flush()

    def _wake(self, *, alone: bool = True) -> bool:
        """Hand all that waits to the host; where it does not take it in one go, a task does if we are ``alone``."""
        self._woken = False
        if not self.pending or self._flushed is not None:
            return True  # somebody has waited for it, or does
        data = b"".join(self.pending)
        if self._sink is None:
            self._sink = self.exchange.stream(self.headers)
        try:
            if not self._sink.take(data):
                if alone:
                    self._task = asyncio.get_running_loop().create_task(self._flush())
                return False
        except TransportError:
            self._give_up()
        else:
            self.pending.clear()
            self._size -= len(data)
        return True

    async def _flush(self) -> None:
        flushed = self._flushed = asyncio.get_running_loop().create_future()
        if self._sink is None:
            self._sink = self.exchange.stream(self.headers)
        try:
            while self.pending:
                count, data = len(self.pending), b"".join(self.pending)
                self._flying = len(data)
                await self._sink.write(data)
                del self.pending[:count]
                self._size -= self._flying
                self._flying = 0
        except TransportError:
            self._give_up()
        finally:
            self._flushed = None
            flushed.set_result(None)

    async def finish(self, last: bytes | None = None) -> None:
        """Send ``last``, encoded text, then end the response properly. Call it however the stream went."""
        if self._ended:
            return
        given_up = self.closed
        if not given_up:
            if last is not None:
                self.pending.append(last)
            if self._flushed is not None:
                await self.drain()
            elif not self._wake(alone=False):
                await self._flush()
        if self._ended:
            return
        self._ended = True
        self.abandon()
        if self._task is not None:
            self._task.cancel()
        if self._sink is None:
            self._sink = self.exchange.stream(self.headers)
        if not given_up:
            await self._sink.close()
            return
        try:
            async with asyncio.timeout(self.patience):
                await self._sink.close()
        except TimeoutError:
            pass  # nobody is there to be told

    async def end(self, reply: bytes | None) -> None:
        """`finish` with a reply as the last event, if there is one."""
        await self.finish(None if reply is None else encode_event(reply))

    def close_soon(self) -> None:
        """`finish` for callers that cannot wait."""
        if not self.closed and self._closer is None:
            self._closer = asyncio.get_running_loop().create_task(self.finish())

    def _give_up(self) -> None:
        self.abandon()
        if self.on_abandon is not None:
            self.on_abandon()

    def abandon(self) -> None:
        """Take and send nothing more."""
        self.closed = True
        self.pending.clear()
        if self._done is not None:
            self._done.set()

    async def wait(self) -> None:
        """Return when the stream takes nothing more."""
        if self.closed:
            return
        if self._done is None:
            self._done = asyncio.Event()
        await self._done.wait()
