"""The server's side of a WebSocket: one JSON-RPC message per text frame, through any ASGI host.

The subprotocol is ``mcp`` (``mcp.v1`` is understood too); a client that offers none gets none. Frames with
several messages separated by newlines are read, as erlmcp sends them, but never written.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

from ....core.channel import Link
from ....drivers.duplex import Duplex, accept
from ....errors import TransportError
from .asgi import TEXT_TYPE, Message, Receive, Scope, Send
from .service import HttpService

SUBPROTOCOLS: Final = ("mcp", "mcp.v1")
NORMAL: Final = 1000
GOING_AWAY: Final = 1001
UNSUPPORTED_DATA: Final = 1003
INVALID_TEXT: Final = 1007
POLICY: Final = 1008
TOO_BIG: Final = 1009
INTERNAL_ERROR: Final = 1011


class SocketLink(Link):
    """Sends what the driver writes; one short task flushes whatever has gathered."""

    def __init__(self, send: Send, limit: int) -> None:
        self._send = send
        self._limit = limit
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._code = NORMAL
        self.done = asyncio.Event()
        """Set when the socket is to be read no more."""

    def send(self, message: bytes) -> None:
        if self._closed:
            return
        if self._size > self._limit:
            self.abort()  # the client does not read
            return
        self._waiting.append(message)
        self._size += len(message)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        try:
            while self._waiting:
                message = self._waiting.popleft()
                await self._send({"type": "websocket.send", "text": message.decode()})
                self._size -= len(message)
            if self._closed:
                await self._send({"type": "websocket.close", "code": self._code})
        except (OSError, RuntimeError):
            self._waiting.clear()  # the host says that the client has gone
            self._closed = True
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
        self._code = code
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._flush())

    def abort(self) -> None:
        self._closed = True
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
        self.done.set()


async def refuse_websocket(scope: Scope, receive: Receive, send: Send, status: int, reason: str) -> None:
    """Turn a handshake down, with a status and a reason where the host can carry them."""
    await receive()  # websocket.connect
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        code = INTERNAL_ERROR if status == 500 else POLICY
        await send({"type": "websocket.close", "code": code, "reason": reason})
        return
    body = reason.encode()
    head = [TEXT_TYPE, (b"content-length", b"%d" % len(body))]
    await send({"type": "websocket.http.response.start", "status": status, "headers": head})
    await send({"type": "websocket.http.response.body", "body": body})


async def serve_websocket(
    service: HttpService,
    scope: Scope,
    receive: Receive,
    send: Send,
    principal: str | None,
    live: set[Duplex],
) -> None:
    """Serve one WebSocket from its handshake to its end."""
    await receive()  # websocket.connect
    offered: list[str] = scope.get("subprotocols") or []
    chosen = next((name for name in offered if name in SUBPROTOCOLS), None)
    await send({"type": "websocket.accept", "subprotocol": chosen})
    scope["transport"] = "websocket"
    duplex = accept(service, principal=principal, scope=scope)
    link = SocketLink(send, service.limits.write_buffer)
    duplex.connected(link)
    live.add(duplex)
    ended = asyncio.ensure_future(link.done.wait())
    try:
        await _read(receive, duplex, link, ended, service.limits.message_size)
    finally:
        live.discard(duplex)
        ended.cancel()
        duplex.lost(TransportError("the client closed the WebSocket", cause="eof"))
        link.abort()
        await duplex.wait_closed(1.0)


async def _read(
    receive: Receive, duplex: Duplex, link: SocketLink, ended: asyncio.Future[Any], limit: int
) -> None:
    while True:
        arrival = asyncio.ensure_future(receive())
        await asyncio.wait({arrival, ended}, return_when=asyncio.FIRST_COMPLETED)
        if not arrival.done():
            arrival.cancel()
            return
        code = _take(arrival.result(), duplex, limit)
        if code is not None:
            if code:
                link.close(code)
                await link.done.wait()
            return


def _take(message: Message, duplex: Duplex, limit: int) -> int | None:
    """Hand one frame to the driver; a code when the socket is to be closed, 0 when it is closed already."""
    if message["type"] == "websocket.disconnect":
        return 0
    text: str | None = message.get("text")
    if text is None:
        return UNSUPPORTED_DATA
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return INVALID_TEXT
    if len(data) > limit:
        duplex.oversized(limit)
        return TOO_BIG
    if b"\n" not in data:
        duplex.received(data)
        return None
    for line in _messages(data):
        duplex.received(line)
    return None


def _messages(data: bytes) -> list[bytes]:
    """The messages of a frame: one, however it is laid out, or several on lines of their own."""
    lines = [line for line in data.split(b"\n") if line.strip()]
    # JSON that was pretty-printed begins a line with something that no message begins with.
    return lines if all(line.lstrip()[:1] in (b"{", b"[") for line in lines) else [data]
