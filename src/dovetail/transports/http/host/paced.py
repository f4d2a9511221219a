"""What a WebSocket sends to uvicorn, a little in each turn of the event loop, so that others get theirs.

uvicorn takes frames apart in Python, all that was read at once, and uvloop reads a socket again and again while
something comes. So one client that sends fast, or a mebibyte of tiny frames, keeps all the others waiting for seconds.
Here its protocol is given small pieces, and nothing more is read meanwhile: a protocol stands between the transport and
uvicorn's, and a transport between that one and the real one, as asyncio has them. What it leaves is let go by name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Any, cast

from ....settings import TURN_PIECE, TURN_SECONDS


class Paced(asyncio.Protocol):
    """uvicorn's WebSocket protocol, for its option ``ws``."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        # Needs websockets, which is an extra of its own.
        from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

        self._protocol = WebSocketsSansIOProtocol(*arguments, **options)
        self._gate: Gate
        self._rest = memoryview(b"")
        self._next: asyncio.Handle | None = None
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._gate = Gate(transport, self._soon)
        self._protocol.connection_made(cast("asyncio.Transport", self._gate))

    def data_received(self, data: bytes) -> None:
        if not self._rest and len(data) <= TURN_PIECE:
            self._protocol.data_received(data)
            return
        self._rest = memoryview(bytes(self._rest) + data if self._rest else data)
        self._gate.hold(on=True)
        self._soon()

    def _soon(self) -> None:
        if self._next is None:
            self._next = self._loop.call_soon(self._feed)

    def _feed(self) -> None:
        """Go on with what was read, for as long as a turn takes; read more when nothing is left."""
        self._next, begun = None, perf_counter()
        while self._rest and not self._gate.paused:
            piece, self._rest = bytes(self._rest[:TURN_PIECE]), self._rest[TURN_PIECE:]
            self._protocol.data_received(piece)
            if perf_counter() - begun > TURN_SECONDS:
                break
        if not self._rest:
            self._gate.hold(on=False)
        elif not self._gate.paused:  # else the gate calls us when it goes on
            self._soon()

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest = memoryview(b"")
        self._protocol.connection_lost(exc)
        # What has come of a message hangs in a circle of objects, where only the garbage collector would find it.
        self._protocol.conn.receive_eof()
        self._protocol.frames = []

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()


class Gate:
    """A transport that reads when neither its protocol nor whoever stands before that one wants it to wait."""

    def __init__(self, transport: Any, go_on: Callable[[], None]) -> None:
        self._transport = transport
        self._go_on = go_on
        self._held = False
        self.paused = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def hold(self, *, on: bool) -> None:
        self._held = on
        self._apply()

    def pause_reading(self) -> None:
        self.paused = True
        self._apply()

    def resume_reading(self) -> None:
        self.paused = False
        if self._held:
            self._go_on()
        self._apply()

    def _apply(self) -> None:
        if self._transport.is_closing():
            return
        if self._held or self.paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()
