"""Spoilt words of servers against our own client, over HTTP and over lines."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from random import Random

from dovetail import Client, DovetailError, Timeouts

from .mutations import MODERN, conversations, spoil
from .on_clients import hostile, usual
from .victim import Json

AT_ONCE = 10

Answered = tuple[str, bytes, dict[str, str]]


async def fuzz_http(seconds: float, random: Random) -> str:
    """Answer our client with spoilt words of servers, in both eras, as JSON and as events."""

    async def talk(revision: str, body: bytes) -> None:
        stream = random.random() < 0.5

        def reply(message: Json) -> Answered:
            kind, usually, headers = _usually(message, revision)
            if not _is_work(message):
                return kind, usually, headers
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


async def _until(seconds: float, random: Random, talk: Callable[[str, bytes], Awaitable[None]]) -> str:
    every = [
        (revision, line) for revision, said in conversations("S").items() for one in said for line in one
    ]
    begun, count = time.monotonic(), 0
    while time.monotonic() - begun < seconds:
        chosen = [random.choice(every) for _ in range(AT_ONCE)]
        async with asyncio.timeout(30):
            await asyncio.gather(*(talk(revision, spoil(line, random)) for revision, line in chosen))
        count += AT_ONCE
    return f"{count} servers"


async def _list_and_call(url: str) -> None:
    with suppress(DovetailError):
        async with Client(url, timeouts=Timeouts(2, 0.3, 1)) as client:
            with suppress(DovetailError):
                await client.list_tools()
            await client.call_tool("trap", {"city": "Oslo"})


def _is_work(message: Json) -> bool:
    return message.get("method") in ("tools/call", "tools/list") and "id" in message


def _addressed(body: bytes, message: Json) -> bytes:
    """The recorded answer with the id of this request in place of its own."""
    own = b'"id": %d' % message["id"]
    return body.replace(b'"id": 2', own).replace(b'"id": 1', own)


def _line(message: Json, revision: str, body: bytes) -> bytes:
    return _addressed(body, message) if _is_work(message) else _usually(message, revision)[1]


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


def _usually(message: Json, revision: str) -> Answered:
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
