"""Heads of requests under uvicorn, which itself waits for their end for ever, however long they become.

A connection on which nothing is asked has `HttpOptions.header_timeout` from its first byte, or from its beginning, and
`Limits.max_header_bytes`. A protocol stands between the transport and uvicorn's, as asyncio has them, and an
application of this connection before ours, as ``loaded_app`` of its configuration, so that somebody knows when a head
has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, MutableMapping
from typing import Any, Final

from ....settings import READ_AT_ONCE
from ..server.asgi import Message, Receive, Send
from ..server.exchange import LONGEST_LENGTH

TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
)


class Heads(asyncio.Protocol):
    """One of uvicorn's HTTP protocols, for its option ``http``: heads have ``size`` bytes and ``seconds`` to end."""

    def __init__(
        self, protocol: Callable[..., Any], size: int, body: int, seconds: float, *, config: Any, **more: Any
    ) -> None:
        self._serve = config.loaded_app
        self._protocol = protocol(config=_Config(config, self._asked), **more)
        self._size, self._body, self._seconds = size, body, seconds
        self._left = size
        """Bytes that may come before something else is asked."""
        self._asking = 0
        self._loop = asyncio.get_running_loop()
        self._since: float | None = self._loop.time()
        """Since when a head may have begun; None while nothing has come."""
        self._transport: Any = None
        self._timer: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._timer = self._loop.call_later(self._seconds, self._look)
        self._protocol.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._left -= len(data)
        if self._since is None and not self._asking:
            self._since = self._loop.time()
        self._protocol.data_received(data)
        if self._left < -2 * READ_AT_ONCE:
            self._weigh()  # uvicorn has not stopped reading, as it does when a body or what is asked next has come
        elif self._left < 0:
            self._loop.call_soon(self._weigh)  # behind the application, if this was the end of a head

    async def _asked(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """The application of this connection: a head has ended."""
        self._asking += 1
        self._since = None
        length, whole = 0, True
        for name, value in scope["headers"]:
            if name == b"content-length":
                length = int(value.lstrip(b"0")[:LONGEST_LENGTH] or b"0")  # whoever reads it judges the rest
            elif name == b"transfer-encoding":
                length, whole = self._body, False
        self._left = self._size + READ_AT_ONCE + length

        async def until_its_end() -> Message:
            message = await receive()
            if not message.get("more_body"):
                self._left = self._size + READ_AT_ONCE
            return message

        try:
            await self._serve(scope, receive if whole else until_its_end, send)
        finally:
            self._asking -= 1
            if not whole:
                self._left = self._size + READ_AT_ONCE

    def _weigh(self) -> None:
        if self._left < 0 and not self._transport.is_closing():
            if not self._asking:
                self._transport.write(TOO_LARGE)
            self._transport.close()

    def _look(self) -> None:
        """Whether a head has taken too long; looked at now and then, as a timer for each would cost more."""
        now = self._loop.time()
        if self._since is not None and now - self._since >= self._seconds:
            self._transport.abort()
        elif not self._transport.is_closing():
            rest = self._seconds if self._since is None else self._since + self._seconds - now
            self._timer = self._loop.call_later(rest, self._look)

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()


class _Config:
    """uvicorn's configuration with another application."""

    def __init__(self, config: Any, app: Any) -> None:
        self._config = config
        self.loaded_app = app

    def __getattr__(self, name: str) -> Any:
        return getattr(self._config, name)
