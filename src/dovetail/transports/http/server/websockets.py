"""The server side of WebSocket: one JSON-RPC message per text message.

The subprotocol is ``mcp`` or ``mcp.v1``; a client that offers none gets none. Several JSON-RPC messages in one text
message, separated by newlines, are accepted, because erlmcp sends them. The server never writes them.
"""

from __future__ import annotations

import asyncio
from binascii import a2b_base64
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from ....core.channel import Link
from ....drivers.duplex import Duplex
from ....errors import TransportError
from .http_exchange import HTTP_FLUSH, Socket

SUBPROTOCOLS: Final = ("mcp", "mcp.v1")
KEY_BYTES: Final = 16
NORMAL: Final = 1000
GOING_AWAY: Final = 1001
UNSUPPORTED_DATA: Final = 1003
INVALID_TEXT: Final = 1007
POLICY_VIOLATION: Final = 1008
TOO_BIG: Final = 1009
INTERNAL_ERROR: Final = 1011
TRY_AGAIN_LATER: Final = 1013


class ServerSocketLink(Link):
    """The link of the duplex driver: it queues messages, and a task sends them."""

    def __init__(self, socket: Socket, limit: int, patience: float) -> None:
        self._socket = socket
        self._patience = patience
        self._limit = limit
        self._waiting: deque[bytes] = deque()
        self._size = self._flying = 0
        """Bytes that are not sent yet, and those of the message that is being sent."""
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self.code: int | None = None
        """The close code to send; None if the connection is lost."""
        self.done = asyncio.Event()
        """Set when everything is sent and the socket can be closed."""

    def send(self, message: bytes) -> None:
        if self._closed:
            return
        if self._size - self._flying > self._limit:
            self.abort()  # the client does not read
            return
        self._waiting.append(message)
        self._size += len(message)
        self.blocked = self._size > self._limit
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        try:
            while self._waiting:
                message = self._waiting.popleft()
                self._flying = len(message)
                async with asyncio.timeout(self._patience):
                    await self._socket.send_text(message.decode())
                self._size -= self._flying
                self._flying = 0
                self.blocked = self._size > self._limit
        except (TimeoutError, TransportError):
            self.abort()  # the client does not read, or has disconnected
        finally:
            self._task = None
            if self._closed:
                self.done.set()

    async def drain(self) -> None:
        if self._task is not None:
            await asyncio.wait({self._task})

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self, code: int = GOING_AWAY) -> None:
        if self._closed:
            return
        self._closed = True
        self.code = code
        if self._task is None:
            self.done.set()

    def abort(self) -> None:
        self._closed = True
        self.code = None
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
        self.done.set()


def handshake_problem(method: str, headers: Mapping[str, str]) -> str | None:
    """Why a handshake over HTTP/1.1 is not valid, or None."""
    # RFC 6455, 4.2.1: a GET, the version 13, a key of 16 bytes in base64.
    if method != "GET":
        return "the method must be GET"
    if headers.get("sec-websocket-version") != "13":
        return "Sec-WebSocket-Version must be 13"
    key = headers.get("sec-websocket-key", "")
    try:
        right = len(a2b_base64(key, strict_mode=True)) == KEY_BYTES
    except ValueError:
        right = False
    return None if right else "Sec-WebSocket-Key must be 16 bytes of base64"


def choose(offered: Sequence[str]) -> str | None:
    """Return the first offered subprotocol that the server supports."""
    return next((name for name in offered if name in SUBPROTOCOLS), None)


async def serve_websocket(socket: Socket, duplex: Duplex, link: ServerSocketLink) -> None:
    """Serve an accepted WebSocket until its end; ``duplex`` gets its messages."""
    duplex.connected(link)
    reading = asyncio.ensure_future(_read(socket, duplex, link, duplex.endpoint.limits.max_message_bytes))
    ended = asyncio.ensure_future(link.done.wait())
    try:
        await asyncio.wait({reading, ended}, return_when=asyncio.FIRST_COMPLETED)
        if link.code is not None:
            await link.done.wait()
    finally:
        ended.cancel()
        reading.cancel()
        await asyncio.wait({reading})  # an ASGI server may refuse to close a socket that a task still reads
        failure = None if reading.cancelled() else reading.exception()
        if link.code is not None or failure is not None:
            await close_socket(socket, link.code or INTERNAL_ERROR)
        duplex.lost(TransportError("the client closed the WebSocket", cause="eof"))
        link.abort()
        await duplex.wait_closed(HTTP_FLUSH)
    if failure is not None:
        raise failure  # the HTTP server logs it


async def close_socket(socket: Socket, code: int) -> None:
    """Close a socket; its client gets `HTTP_FLUSH` seconds to respond."""
    try:
        async with asyncio.timeout(HTTP_FLUSH):
            await socket.close(code)
    except TimeoutError:
        pass


async def _read(socket: Socket, duplex: Duplex, link: ServerSocketLink, limit: int) -> None:
    """Pass messages to the driver until the socket is closed or a message is refused."""
    while (message := await socket.receive_message()) is not None:
        code = _take(message, duplex, limit)
        if code is not None:
            link.close(code)
            return


def _take(message: str | bytes, duplex: Duplex, limit: int) -> int | None:
    """Pass one message to the driver; return a close code if it must be refused."""
    if isinstance(message, bytes):
        return UNSUPPORTED_DATA
    try:
        data = message.encode()
    except UnicodeEncodeError:
        return INVALID_TEXT
    if len(data) > limit:
        duplex.oversized(limit)
        return TOO_BIG
    if b"\n" not in data:
        duplex.received(data)
        return None
    for line in _messages(data, duplex.limits.max_batch_size):
        duplex.received(line)
    return None


def _messages(data: bytes, most: int) -> list[bytes]:
    """The JSON-RPC messages of a text message: one in any layout, or several on separate lines, up to ``most``."""
    if data.count(b"\n") > most:
        return [data]
    lines = [line for line in data.split(b"\n") if line.strip()]
    # A single message that is pretty-printed has lines that do not begin with a bracket.
    return lines if all(line.lstrip()[:1] in (b"{", b"[") for line in lines) else [data]
