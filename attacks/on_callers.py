"""Attacks of servers that do not stop talking, on our client over HTTP, lines and WebSockets."""

from __future__ import annotations

import asyncio
import json
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from hashlib import sha1
from itertools import count

from dovetail import Client, DovetailError, Timeouts

from .fuzz_clients import GUID, frame_of, heard, usually
from .on_clients import TRAP, Pulse, answer, hostile, usual
from .report import GotThrough, Scale, attack
from .victim import MODERN, Json
from .weight import mine

LEGACY = "2025-11-25"
MOST = 128
"""Mebibytes by which a server can make its client grow; this process is the server, too."""
FIRST = 60.0
"""Seconds for calls that only make sure that all is imported."""
Flood = Callable[[Json], Iterator[bytes]]
Words = Callable[[Json], bytes]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n"


def _note(method: str, **params: object) -> Words:
    return lambda _: json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


def _request(method: str, **params: object) -> Words:
    ids = count(1000)
    return lambda _: json.dumps(
        {"jsonrpc": "2.0", "id": next(ids), "method": method, "params": params}
    ).encode()


def _forged(_: Json) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": next(_forging), "result": {"content": []}}).encode()


_forging = count(100_000)
_MESSAGE = {"role": "user", "content": {"type": "text", "text": "x"}}
SAID: dict[str, Words] = {
    "log messages": _note("notifications/message", level="info", data="x" * 500),
    "progress of others": _note("notifications/progress", progressToken="nobody's", progress=1),
    "changed lists": _note("notifications/tools/list_changed"),
    "cancellations": _note("notifications/cancelled", requestId="nobody's"),
    "unknown notifications": _note("notifications/" + "x" * 500),
    "answers nobody waits for": _forged,
    "pings": _request("ping"),
    "questions": _request("sampling/createMessage", messages=[_MESSAGE], maxTokens=1),
    "unknown requests": _request("x" * 500),
    "arrays": lambda _: b"[" + b",".join([b"1"] * 5000) + b"]",
    "no messages": lambda _: b"rubbish",
}
"""What a server may say very often before it answers."""


async def _lines(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, revision: str, flood: Flood
) -> None:
    while line := await reader.readline():
        message = json.loads(line)
        if message.get("method") != "tools/call":
            said = _usual(message, revision)
            writer.write(said + b"\n" if said else b"")
            continue
        await _pour(writer, (one + b"\n" for one in flood(message)))


async def _frames(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, revision: str, flood: Flood
) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    key = next(line for line in head.split("\r\n") if line.lower().startswith("sec-websocket-key"))
    accept = b64encode(sha1(key.split(":")[1].strip().encode() + GUID).digest()).decode()
    lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
    writer.write("\r\n".join([*lines, f"Sec-WebSocket-Accept: {accept}", "", ""]).encode())
    while True:
        said = await heard(reader)
        message = json.loads(said) if said else {}
        if message.get("method") == "tools/call":
            await _pour(writer, map(frame_of, flood(message)))
        elif message and (usual_words := _usual(message, revision)):
            writer.write(frame_of(usual_words))


async def _events(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, revision: str, flood: Flood
) -> None:
    while True:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        size = int(head.partition("content-length:")[2].split("\r\n")[0] or 0)
        message = json.loads(await reader.readexactly(size) or b"{}")
        if message.get("method") == "tools/call":
            writer.write(HEAD % b"text/event-stream")
            await _pour(writer, (_chunk(b"data: " + one + b"\n\n") for one in flood(message)))
            writer.write(b"0\r\n\r\n")
            continue
        said = _usual(message, revision)
        status = "200 OK" if said else "202 Accepted"
        if head.startswith("get"):
            status, said = "405 Method Not Allowed", b""
        lines = [
            f"HTTP/1.1 {status}",
            "Content-Type: application/json",
            f"Content-Length: {len(said)}",
            "",
            "",
        ]
        writer.write("\r\n".join(lines).encode() + said)


async def _pour(writer: asyncio.StreamWriter, pieces: Iterator[bytes]) -> None:
    for number, piece in enumerate(pieces):
        writer.write(piece)
        if not number % 20:
            await writer.drain()
            await asyncio.sleep(0)  # the client has a turn, too
    await writer.drain()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _usual(message: Json, revision: str) -> bytes:
    if message.get("method") == "tools/list":
        tools = answer(message, {"tools": [TRAP], "ttlMs": 0, "cacheScope": "private"})[1]
        return tools if revision == MODERN else tools.replace(b'"resultType": "complete", ', b"")
    return usually(message, revision)[1]


WAYS = {
    "http": (_events, "http://127.0.0.1:{}/mcp"),
    "tcp": (_lines, "tcp://127.0.0.1:{}"),
    "ws": (_frames, "ws://127.0.0.1:{}/mcp"),
}


@asynccontextmanager
async def talking(way: str, revision: str, flood: Flood) -> AsyncIterator[str]:
    """A server that is honest until a tool is called; then it says what ``flood`` has."""
    talk, url = WAYS[way]

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, ValueError, StopIteration):
            await talk(reader, writer, revision, flood)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=1 << 24)
    try:
        yield url.format(server.sockets[0].getsockname()[1])
    finally:
        server.close()


async def _warm() -> None:
    """What a first call has to import is not what a hostile server does."""
    if not _warmed:
        _warmed.append(True)
        for way in WAYS:
            for revision in (MODERN, LEGACY):

                def flood(message: Json, revision: str = revision) -> Iterator[bytes]:
                    yield SAID["log messages"](message)
                    yield _usual(message, revision)

                async with talking(way, revision, flood) as url:
                    answered, detail = await _called(url, f"honest {way} {revision}", FIRST)
                    if not answered:
                        raise GotThrough(f"an honest server is not understood: {detail}")


_warmed: list[bool] = []


async def _called(url: str, what: str, seconds: float) -> tuple[bool, str]:
    """Whether a call was answered, and what it was like; it has to be over in time, with the loop alive."""
    await _warm()
    clock, before, outcome = asyncio.get_running_loop().time, mine(), "answered"
    begun = clock()
    async with Pulse() as pulse:
        try:
            async with Client(url, timeouts=Timeouts(connect=5, idle=5, total=seconds)) as client:
                await client.list_tools()
                await client.call_tool("trap", {})
        except DovetailError as error:
            outcome = f"{type(error).__name__} {error.kind}"
    took, grown = clock() - begun, (mine() - before) >> 20
    detail = f"{what}: {outcome} after {took:.1f} s, loop away {pulse.worst * 1000:.0f} ms, {grown} MiB"
    if took > seconds + 8 or (pulse.worst > 1.0 and seconds < FIRST) or grown > MOST:
        raise GotThrough(detail)
    return outcome == "answered", detail


@attack("client", seconds=400)
async def much_before_an_answer(scale: Scale) -> str:
    """Thousands of notifications, questions, pings and forged answers come before the answer, on each transport."""
    told, times = list[str](), scale.of(300, 5000)
    for way in WAYS:
        for what, words in SAID.items():
            revision = LEGACY if what in ("pings", "questions", "unknown requests") else MODERN

            def flood(message: Json, words: Words = words, revision: str = revision) -> Iterator[bytes]:
                for _ in range(times):
                    yield words(message)
                yield _usual(message, revision)

            async with talking(way, revision, flood) as url:
                _, detail = await _called(url, f"{way} {what}", 20)
                told.append(detail)
    return "; ".join(told)


@attack("client", seconds=120)
async def words_without_end(scale: Scale) -> str:
    """Comments, events, lines, fragments and pings that do not end instead of an answer."""
    told, seconds = list[str](), scale.of(0.3, 3.0)

    def forever(piece: bytes) -> Flood:
        def pour(_: Json) -> Iterator[bytes]:
            while True:
                yield piece

        return pour

    for way, what, piece in (
        ("http", "notifications", b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}'),
        ("http", "one event", b"x" * 5000 + b"\ndata: "),
        ("http", "empty events", b""),
        ("tcp", "notifications", b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}'),
        ("tcp", "empty lines", b""),
        ("ws", "notifications", b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}'),
    ):
        async with talking(way, MODERN, forever(piece)) as url:
            answered, detail = await _called(url, f"{way} {what}", seconds)
        told.append(detail)
        if answered:
            raise GotThrough(f"an answer that never came: {detail}")
    for way, what, raw in (
        ("http", "comments", _chunk(b": nothing\n" * 100)),
        ("http", "an event that does not end", _chunk(b"data: " + b"x" * 10_000)),
        ("http", "pieces of one byte", _chunk(b" ") * 1000),
        ("tcp", "a line that does not end", b"x" * 65536),
        ("ws", "fragments", b"\x00\x7e\xff\xff" + b"x" * 65535),
        ("ws", "fragments of one byte", b"\x00\x01x" * 5000),
        ("ws", "pings", b"\x89\x7dx" + b"x" * 124),
    ):
        async with _raw(way, raw) as url:
            told.append((await _called(url, f"{way} {what}", seconds))[1])
    return "; ".join(told)


@asynccontextmanager
async def _raw(way: str, piece: bytes) -> AsyncIterator[str]:
    """A server that is honest until a tool is called; then these very bytes come again and again."""
    talk, url = WAYS[way]

    def never(_: Json) -> Iterator[bytes]:
        raise StopIteration

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, ValueError):
            with suppress(RuntimeError, StopIteration):
                await talk(reader, writer, MODERN, never)
            if way == "ws":
                writer.write(b"\x01\x01x")
            while True:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=1 << 24)
    try:
        yield url.format(server.sockets[0].getsockname()[1])
    finally:
        server.close()


@attack("client", seconds=120)
async def ways_without_end(scale: Scale) -> str:
    """Redirects in circles, pages of lists, questions, heads and hints (103) that do not end; other packings."""
    told: list[str] = []
    redirect = "HTTP/1.1 307 Temporary Redirect\r\nLocation: /mcp?{}\r\nContent-Length: 0\r\n\r\n"
    for what, start, more in (
        ("redirects", "", redirect),
        ("a head", "HTTP/1.1 200 OK\r\n", "X-{}: " + "x" * 8000 + "\r\n"),
        ("hints", "", "HTTP/1.1 103 Early Hints\r\nLink: {}\r\n\r\n"),
        ("one status line", "HTTP/1.1 200 ", "x" * 8000),
    ):
        async with _heads(start, more, once=what == "redirects") as url:
            told.append((await _called(url, what, 3))[1])
    big = zlib.compress(b" " * (scale.of(64, 512) << 20))
    for packing, body in {
        "deflate": big,
        "br": b"\x8f\x07\x80" * 1000,
        "gzip, gzip": big,
        "zstd": big,
    }.items():

        def packed(
            message: Json, body: bytes = body, packing: str = packing
        ) -> tuple[str, bytes, dict[str, str]]:
            if message.get("method") == "tools/call":
                return "application/json", body, {"Content-Encoding": packing}
            return usual(message, [TRAP])

        async with hostile(packed) as url:
            told.append((await _called(url, packing, 5))[1])

    def pages(message: Json) -> tuple[str, bytes, dict[str, str]]:
        if message.get("method") == "tools/list":
            tool = {**TRAP, "name": f"t{message['id']}"}
            return answer(message, {"tools": [tool], "nextCursor": f"{message['id']}", "ttlMs": 0, "cacheScope": "private"})  # noqa: E501  # fmt: skip
        return usual(message, [TRAP])

    async with hostile(pages) as url:
        told.append((await _called(url, "pages", 10))[1])
    return "; ".join(told)


@asynccontextmanager
async def _heads(start: str, more: str, *, once: bool) -> AsyncIterator[str]:
    """A server that answers everything with this beginning, and then more of it, once for each request or for ever."""
    numbers = count()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, ValueError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                await reader.readexactly(int(head.partition("content-length:")[2].split("\r\n")[0] or 0))
                writer.write(start.encode())
                while True:
                    writer.write(more.format(next(numbers)).encode())
                    await writer.drain()
                    await asyncio.sleep(0)
                    if once:
                        break
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=1 << 24)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    finally:
        server.close()
