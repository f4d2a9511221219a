"""A forward proxy that works: it fetches http URLs, and opens tunnels. Every name leads to this machine.

So a target such as ``http://server.example:PORT/`` can be reached through it, and in no other way.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any


class ForwardProxy:
    """What it was asked: the heads of requests, tunnels included."""

    def __init__(self, user: str | None = None) -> None:
        self.user = user
        """``name:password`` that it asks for."""
        self.heads: list[str] = []
        self.refusal: bytes | None = None
        """The response to every request instead of forwarding."""
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def lines(self) -> list[str]:
        return [head.partition("\r\n")[0] for head in self.heads]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if self.refusal is not None or not self._knows(headers.get("proxy-authorization")):
            denied = b"HTTP/1.1 407 Who are you\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"
            writer.write(self.refusal or denied)
            await writer.drain()
            return method != "CONNECT"
        if method == "CONNECT":
            await self._tunnel(int(target.rpartition(":")[2]), reader, writer)
            return False
        _, _, rest = target.partition("://")
        authority, _, path = rest.partition("/")
        kept = [line for line in lines if line and not line.lower().startswith("proxy-")]
        request = (
            "\r\n".join([f"{method} /{path} HTTP/1.1", *kept, "Connection: close", "", ""]).encode() + body
        )
        await self._relay(int(authority.rpartition(":")[2]), request, reader, writer)
        return False

    def _knows(self, said: str | None) -> bool:
        if self.user is None:
            return True
        return said == "Basic " + base64.b64encode(self.user.encode()).decode()

    async def _tunnel(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Go ahead\r\nVia: test\r\n\r\n")
        try:
            await _until_one_ends(_copy(reader, far_writer), _copy(far_reader, writer))
        finally:
            far_writer.transport.abort()

    async def _relay(
        self, port: int, request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """One exchange, and then close the connection."""
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            far_writer.write(request)
            writer.write(await far_reader.readuntil(b"\r\n") + b"Connection: close\r\n")
            await _until_one_ends(reader.read(), _copy(far_reader, writer))
        finally:
            far_writer.transport.abort()

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()


async def _until_one_ends(*works: Coroutine[Any, Any, Any]) -> None:
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def forward_proxy(
    *, user: str | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[ForwardProxy]:
    proxy = ForwardProxy(user)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, ssl=tls)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
        await server.wait_closed()
