"""Spoilt words of servers against our own client, over HTTP and over lines."""

from __future__ import annotations

import asyncio
import json
import os
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from hashlib import sha1
from random import Random

from dovetail import Client, DovetailError, Timeouts

from .mutations import MODERN, conversations, spoil
from .on_clients import hostile, usual
from .report import GotThrough
from .victim import Json
from .weight import Weight, in_time, mine

AT_ONCE = 40
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

Answered = tuple[str, bytes, dict[str, str]]


async def fuzz_http(seconds: float, random: Random) -> str:
    """Answer our client with spoilt words of servers, in both eras, as JSON and as events."""

    async def talk(revision: str, body: bytes) -> None:
        stream = random.random() < 0.5

        def reply(message: Json) -> Answered:
            kind, said, headers = usually(message, revision)
            if not _is_work(message):
                return kind, said, headers
            answer = _addressed(body, message)
            return ("text/event-stream", b"data: " + answer + b"\n\n", {}) if stream else (kind, answer, {})

        async with hostile(reply) as url:
            await _list_and_call(url)

    return await _until(seconds, random, talk)


async def fuzz_lines(seconds: float, random: Random) -> str:
    """The same over TCP, whose lines are read as those of a child process are."""

    async def talk(revision: str, body: bytes) -> None:
        async with _listening(lambda message: _line(message, revision, body)) as url:
            await _list_and_call(url)

    return await _until(seconds, random, talk)


async def fuzz_sockets(seconds: float, random: Random) -> str:
    """The same over a WebSocket, whose frames are spoilt as well."""

    async def talk(revision: str, body: bytes) -> None:
        def frames(message: Json) -> bytes:
            said = _line(message, revision, body)
            data = frame_of(said) if said else b""
            return spoil(data, random) if data and _is_work(message) and random.random() < 0.3 else data

        async with _upgrading(frames) as url:
            await _list_and_call(url)

    return await _until(seconds, random, talk)


async def _until(seconds: float, random: Random, talk: Callable[[str, bytes], Awaitable[None]]) -> str:
    every = [
        (revision, line) for revision, said in conversations("S").items() for one in said for line in one
    ]
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, said: complaints.append(repr(said)))
    weight, count = Weight(mine, seconds), 0
    while not weight.over():
        chosen = [random.choice(every) for _ in range(AT_ONCE)]
        work = asyncio.gather(*(talk(revision, spoil(line, random)) for revision, line in chosen))
        await in_time(work, os.getpid())
        count += AT_ONCE
        if complaints:
            raise GotThrough(f"the loop says: {complaints[0][:1500]}")
    return f"{count} servers, {weight}"


async def _list_and_call(url: str) -> None:
    with suppress(DovetailError):
        async with Client(url, timeouts=Timeouts(2, 0.3, 1)) as client:
            with suppress(DovetailError):
                await client.list_tools()
            await client.call_tool("trap", {"city": "Oslo"})


def _is_work(message: Json) -> bool:
    return message.get("method") in ("tools/call", "tools/list") and "id" in message


def _addressed(body: bytes, message: Json) -> bytes:
    """The recorded response with the id of this request."""
    own = b'"id": %d' % message["id"]
    return body.replace(b'"id": 2', own).replace(b'"id": 1', own)


def _line(message: Json, revision: str, body: bytes) -> bytes:
    return _addressed(body, message) if _is_work(message) else usually(message, revision)[1]


@asynccontextmanager
async def _listening(reply: Callable[[Json], bytes]) -> AsyncIterator[str]:
    """A server of lines that answers each message with what ``reply`` says, if anything."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, ValueError):
            while line := await reader.readline():
                if said := reply(json.loads(line)):
                    writer.write(said.replace(b"\n", b" ") + b"\n")
                    await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, limit=1 << 24)
    try:
        yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@asynccontextmanager
async def _upgrading(reply: Callable[[Json], bytes]) -> AsyncIterator[str]:
    """A WebSocket server that answers each message with the bytes that ``reply`` gives."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, ValueError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            (key,) = re.findall(r"(?i)^sec-websocket-key: (\S+)", head, re.MULTILINE)
            accept = b64encode(sha1(key.encode() + GUID).digest()).decode()
            lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
            lines += [f"Sec-WebSocket-Accept: {accept}", "Sec-WebSocket-Protocol: mcp", "", ""]
            writer.write("\r\n".join(lines).encode())
            while True:
                message = await heard(reader)
                writer.write(reply(json.loads(message)) if message else b"")
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, limit=1 << 24)
    try:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    finally:
        server.close()


async def heard(reader: asyncio.StreamReader) -> bytes:
    """The next text of a client; nothing for any other frame.

    Raises:
        ConnectionAbortedError: it says goodbye. Hang up: it waits for that.
    """
    first, size = await reader.readexactly(2)
    size &= 0x7F
    if size > 125:
        size = int.from_bytes(await reader.readexactly(2 if size == 126 else 8))
    mask = await reader.readexactly(4)
    data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(await reader.readexactly(size)))
    if first & 0xF == 8:
        raise ConnectionAbortedError
    return data if first & 0xF == 1 else b""


def frame_of(data: bytes) -> bytes:
    """One text frame of a server."""
    if len(data) < 126:
        return bytes((0x81, len(data))) + data
    return b"\x81\x7e" + len(data).to_bytes(2) + data if len(data) < 1 << 16 else b""


def usually(message: Json, revision: str) -> Answered:
    if revision == MODERN:
        return usual(message, [])
    answer: Json = {"jsonrpc": "2.0", "id": message.get("id")}
    match message.get("method"):
        case "initialize":
            answer["result"] = {
                "protocolVersion": revision,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "spoilt", "version": "0"},
            }
        case "server/discover":
            answer["error"] = {"code": -32601, "message": "Method not found"}
        case None | "notifications/initialized" | "notifications/cancelled":
            return "application/json", b"", {}
        case _:
            answer["result"] = {"content": []}
    return "application/json", json.dumps(answer).encode(), {}
