"""Attacks of clients that take their time: heads and bodies byte by byte, handshakes that stop."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from .report import GotThrough, Scale, attack
from .victim import Victim, Wire, call, http, modern, serve

MIB = 1 << 20
SECONDS = (0.5, 3.0)
"""What a head or a body may take here: in the short form, and in full."""
LATE = 3.0
"""Seconds that a busy machine may add."""
PATIENCE = 70.0
"""Seconds after which a handshake that stops is given up, at the latest: asyncio's own 60, and a busy machine."""


async def _trickle(wires: list[Wire], data: bytes, seconds: float) -> int:
    """One byte on each every tenth of a second, until twice the time is over; how many were hung up on."""
    for at in range(round(20 * seconds)):
        for wire in wires:
            if not wire.writer.transport.is_closing():
                wire.send(data[at : at + 1])
        await asyncio.sleep(0.1)
    return sum(await asyncio.gather(*(wire.closed(LATE) for wire in wires)))


async def _beside(victim: Victim, wires: list[Wire], data: bytes, what: str, seconds: float) -> str:
    trickling = asyncio.create_task(_trickle(wires, data, seconds))
    slowest = 0.0
    while not trickling.done():
        begun = time.monotonic()
        await victim.ask("echo", text="still there?")
        slowest = max(slowest, time.monotonic() - begun)
        await asyncio.sleep(0.05)
    cut = await trickling
    detail = f"{cut} of {len(wires)} {what} were hung up on, others waited {slowest * 1000:.0f} ms at most"
    if cut < len(wires) or slowest > 1.0:
        raise GotThrough(detail)
    return detail


@attack("http", seconds=90, own=True)
async def heads_byte_by_byte(host: str, scale: Scale) -> str:
    """Very many clients send headers byte by byte: the first of a connection, after a response, or nothing."""
    seconds = scale.of(*SECONDS)
    async with serve(host, VICTIM_SECONDS=str(seconds)) as hasty:
        wires = [await hasty.connect() for _ in range(scale.of(60, 1500))]
        for wire in wires[::3]:
            wire.send(call("echo", text="first"))
            await wire.response()
        head = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X-Long: " + b"x" * 1000
        told = await _beside(hasty, wires, head, "heads", seconds)
        idle = [await hasty.connect() for _ in range(scale.of(10, 100))]
        silent = sum(await asyncio.gather(*(wire.closed(2 * seconds + LATE) for wire in idle)))
    if silent < len(idle):
        raise GotThrough(f"{len(idle) - silent} clients that say nothing keep their places")
    return f"{told}; so were {silent} that said nothing"


@attack("http", seconds=90, own=True)
async def bodies_byte_by_byte(host: str, scale: Scale) -> str:
    """Very many clients send a body a byte at a time."""
    seconds = scale.of(*SECONDS)
    async with serve(host, VICTIM_SECONDS=str(seconds)) as hasty:
        wires = [await hasty.connect() for _ in range(scale.of(60, 1500))]
        for wire in wires:
            wire.send(http(headers={"Content-Length": "5000"}))
        return await _beside(hasty, wires, b" " * 1000, "bodies", seconds)


@attack("http", seconds=60)
async def heads_without_end(victim: Victim, scale: Scale) -> str:
    """A header block has hundreds of megabytes: as the first, after a response, and after a running call."""
    whole, told = scale.of(64, 256) * MIB, list[str]()
    for what, before in {
        "first": b"",
        "next": call("echo", text="x"),
        "hidden": call("nap", seconds=30),
    }.items():
        memory, highest, sent = victim.memory(), 0, 0
        wire = await victim.connect()
        wire.send(before + b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        line = b"X-Line: " + b"x" * 8000 + b"\r\n"
        with suppress(ConnectionError, TimeoutError):
            while sent < whole and not wire.writer.transport.is_closing():
                wire.send(line * 16)
                sent += len(line) * 16
                async with asyncio.timeout(2):
                    await wire.writer.drain()
                highest = max(highest, victim.memory() - memory)
        wire.drop()
        told.append(f"{what}: {sent >> 10} KiB went out, {highest >> 20} MiB")
        if highest > 16 * MIB:
            raise GotThrough(told[-1])
    await victim.ask("echo", text="still there?")
    return "; ".join(told)


@asynccontextmanager
async def _with_tls(host: str) -> AsyncIterator[tuple[Victim, ssl.SSLContext]]:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.support.certificates import Authority

    with TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        certificate = str(authority.certificate("127.0.0.1"))
        async with serve(host, VICTIM_TLS=certificate, VICTIM_SECONDS=str(SECONDS[1])) as victim:
            yield victim, authority.client()


def _hello(context: ssl.SSLContext) -> bytes:
    """The first message of a handshake."""
    out = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="127.0.0.1").do_handshake()
    return out.read()


async def _stops(victim: Victim, context: ssl.SSLContext, how: int, hello: bytes) -> Wire:
    """A client that stops before the handshake, within its first message, after it, or in a record of a request."""
    wire = await victim.connect()
    if how < 3:
        wire.send((b"", hello[:40], hello)[how])
        return wire
    await wire.writer.start_tls(context, server_hostname="127.0.0.1")
    raw = wire.writer.get_extra_info("socket").dup()
    with suppress(BlockingIOError):
        raw.send(b"\x17\x03\x03\x40\x00" + b"x" * 100)  # 16 KiB are announced
    raw.close()
    return wire


@attack("http", seconds=150, own=True)
async def handshakes_that_stop(host: str, scale: Scale) -> str:
    """Many clients stop in the middle of a TLS handshake or of a record."""
    return await _stopping(host, scale)


@attack("tcp", seconds=150, own=True)
async def handshakes_on_lines_that_stop(host: str, scale: Scale) -> str:
    """Many clients of lines over TLS stop in the middle of a handshake or of a record."""
    return await _stopping(host, scale)


async def _stopping(host: str, scale: Scale) -> str:
    async with _with_tls(host) as (victim, context):
        hello, before = _hello(context), victim.memory()
        wires = [await _stops(victim, context, number % 4, hello) for number in range(scale.of(40, 400))]
        begun = time.monotonic()
        reader, writer = await asyncio.open_connection(*victim.address, ssl=context)
        message = json.dumps(modern("tools/call", {"name": "echo", "arguments": {"text": "hello"}})).encode()
        writer.write(message + b"\n" if host == "tcp" else call("echo", text="hello"))
        await reader.readuntil(b"hello")
        took, grown = time.monotonic() - begun, (victim.memory() - before) >> 20
        writer.transport.abort()
        detail = f"beside {len(wires)} of them others waited {took * 1000:.0f} ms, {grown} MiB"
        if took > 2.0 or grown > 16 + len(wires) // 2:  # asyncio keeps a quarter of a mebibyte for each
            raise GotThrough(detail)
        if scale.short:
            return detail
        closed = await asyncio.gather(*(wire.closed(PATIENCE) for wire in wires))
    ways = {way: f"{sum(closed[n::4])}/{len(closed[n::4])}" for n, way in enumerate(("silent", "half a hello", "hello", "half a record"))}  # noqa: E501  # fmt: skip
    if not all(closed):
        raise GotThrough(f"not all are hung up on within {PATIENCE:.0f} s: {ways}; {detail}")
    return f"{detail}; all hung up on"
