"""A scripted server: it sends prepared bytes to each client, split where the test wants, and disconnects on request.

A script is an async function of a `Peer`, one call per accepted connection. What the scripts raise, the test gets.
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from dovetail.errors import TransportError
from dovetail.transports.http.client.connection_pool import HttpFetch
from tests.support.waiting import HANG

TURNS = 4
"""Turns of the event loop after which the other side has read what was written: both run in this one."""


class Peer:
    """One accepted connection. ``number`` counts them from 0."""

    def __init__(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number = number
        self.reader = reader
        self.writer = writer
        self.requests: list[tuple[str, bytes]] = []
        self.sent = 0

    async def request(self) -> tuple[str, bytes]:
        """The next request: its head as text, and its body. Raises `asyncio.IncompleteReadError` at the end."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        body = await self.reader.readexactly(int(header(head, "content-length") or 0))
        self.requests.append((head, body))
        return head, body

    def send(self, data: bytes) -> None:
        self.sent += len(data)
        self.writer.write(data)

    async def stream(self, block: bytes, times: int) -> None:
        for _ in range(times):
            self.send(block)
            await self.writer.drain()

    async def drip(self, *pieces: bytes) -> None:
        """Each piece in a separate packet, read before the next is sent."""
        for piece in pieces:
            self.send(piece)
            await turns()

    async def gone(self) -> None:
        """Wait until the client has closed its side, or cut the connection."""
        try:
            while await self.reader.read(1 << 16):
                pass
        except ConnectionError:
            pass

    def close(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        connection = self.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Script = Callable[[Peer], Awaitable[None]]


class RawServer:
    """Where it is, and who came."""

    def __init__(self) -> None:
        self.peers: list[Peer] = []
        self.url = ""
        self.port = 0


@asynccontextmanager
async def raw_server(script: Script, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
    served = RawServer()
    tasks: set[asyncio.Task[None]] = set()
    faults: list[BaseException] = []

    async def play(peer: Peer) -> None:
        try:
            await script(peer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has what it wanted
        except Exception as fault:
            faults.append(fault)
        finally:
            peer.writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(len(served.peers), reader, writer)
        served.peers.append(peer)
        task = asyncio.get_running_loop().create_task(play(peer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls, limit=1 << 20, backlog=1000)
    served.port = server.sockets[0].getsockname()[1]
    served.url = f"http{'s' if tls else ''}://127.0.0.1:{served.port}/mcp"
    try:
        yield served
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for peer in served.peers:
            transport = peer.writer.transport
            if not transport.is_closing() or transport.get_write_buffer_size():
                transport.abort()  # fails on one that was closed after its buffer was empty
        await server.wait_closed()
        await turns()
    assert not faults, faults


def answering(*pieces: bytes) -> Script:
    """Answers every request of every connection with the same bytes."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.drip(*pieces)

    return script


def answer(body: bytes = b"hello", *headers: str, status: str = "200 OK") -> bytes:
    """A decent answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def header(head: str, name: str) -> str | None:
    for line in head.split("\r\n")[1:]:
        key, _, value = line.partition(":")
        if key.lower() == name:
            return value.strip()
    return None


async def turns(count: int = TURNS) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def ask(
    send: Any, url: str, method: str = "POST", body: bytes | None = b"{}", limit: int = 1 << 20
) -> bytes:
    """One exchange, read to its end."""
    response = await send(method, url, {}, body)
    try:
        return await response.read(limit)
    finally:
        response.close()


async def outcome(send: Any, url: str, **options: Any) -> bytes | str:
    """The body of an exchange, or the cause it failed by; the message, if it does not say with whom."""
    try:
        async with asyncio.timeout(HANG):
            return await ask(send, url, **options)
    except TransportError as error:
        return error.cause if error.message.startswith((url.rpartition("/")[0], "the ")) else error.message


def session() -> Any:
    return HttpFetch().session()
