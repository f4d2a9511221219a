"""Attacks on the WebSocket next to the endpoint."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import zlib

from .report import GotThrough, Scale, attack
from .victim import Victim, Wire, http, initialize, modern

"""Where there are WebSockets."""
TEXT, CONTINUATION, PING, MIB = 1, 0, 9, 1 << 20
HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Content-Type": "",
    "Content-Length": "",
}


def frame(opcode: int, data: bytes, *, last: bool = True) -> bytes:
    """One masked frame of a client."""
    first = opcode | (0x80 if last else 0)
    size = len(data)
    if size < 126:
        head = struct.pack("!BB", first, 0x80 | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", first, 0xFE, size)
    else:
        head = struct.pack("!BBQ", first, 0xFF, size)
    return head + b"\0\0\0\0" + data  # a mask of zeros changes nothing


async def opened(victim: Victim) -> Wire:
    wire = await victim.connect()
    wire.send(http("GET", "/mcp", HANDSHAKE))
    head = await wire.reader.readuntil(b"\r\n\r\n")
    if b" 101 " not in head:
        raise GotThrough(f"an honest handshake was refused: {head[:100]!r}")
    return wire


async def message(wire: Wire) -> bytes:
    """The next frame of the server."""
    first, size = await wire.reader.readexactly(2)
    if size == 126:
        (size,) = struct.unpack("!H", await wire.reader.readexactly(2))
    elif size == 127:
        (size,) = struct.unpack("!Q", await wire.reader.readexactly(8))
    data = await wire.reader.readexactly(size)
    return data if first & 0xF == TEXT else await message(wire)


async def _stall(victim: Victim, data: bytes) -> float:
    """How long an honest caller waits at most while ``data`` is being digested."""
    wire = await opened(victim)
    clock = asyncio.get_running_loop().time
    wire.send(data)
    worst = 0.0
    for _ in range(10):
        begun = clock()
        await victim.ask("echo", text="hello")
        worst = max(worst, clock() - begun)
    wire.drop()
    return worst


@attack("http")
async def many_pieces(victim: Victim, scale: Scale) -> str:
    """A message comes in a mebibyte of one-byte frames, or as one array of very many messages."""
    count = scale.of(1 << 17, MIB)
    pieces = frame(TEXT, b" ", last=False) + frame(CONTINUATION, b" ", last=False) * count
    note = {"jsonrpc": "2.0", "method": "x"}
    one = json.dumps(note).encode()
    array = frame(TEXT, b"[" + b",".join([one] * (scale.of(128 << 10, MIB) // len(one))) + b"]")
    small = frame(TEXT, b"[" + b",".join([b"1"] * (scale.of(128 << 10, MIB) // 2)) + b"]")
    lone = frame(TEXT, one) * (scale.of(128 << 10, MIB) // len(one))
    detail = ""
    for name, data in {"fragments": pieces, "array": array, "numbers": small, "frames": lone}.items():
        worst = await _stall(victim, data)
        detail += f"{name} {worst * 1000:.0f} ms; "
        if worst > 1.0:
            raise GotThrough(f"{name} of {len(data) >> 10} KiB stall others for {worst:.1f} s")
    return detail.rstrip("; ")


@attack("http", seconds=120)
async def heavy_introductions(victim: Victim, scale: Scale) -> str:
    """Connections introduce themselves with megabytes of metadata that would be kept for their life."""
    count, size = scale.of(4, 16), scale.of(4, 15) << 20
    before = victim.memory()
    for _ in range(count):
        wire = await opened(victim)
        wire.send(frame(TEXT, json.dumps(initialize(title="x" * size, padding=["y"] * (size >> 6))).encode()))
        try:
            await asyncio.wait_for(message(wire), 10)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # refused is fine
    grown = (victim.memory() - before) >> 20
    if grown > 256:
        raise GotThrough(f"{count} introductions of {size >> 20} MiB cost {grown} MiB")
    return f"{count} introductions of {size >> 20} MiB cost {grown} MiB"


async def _begin(wire: Wire, size: int, *, fragments: bool) -> None:
    """Send a large message but for its end, in one frame or in many."""
    whole = frame(TEXT, b" " * size)
    if fragments:
        whole = frame(TEXT, b" ", last=False) + frame(CONTINUATION, b" " * 65_000, last=False) * (
            size // 65_000
        )
    try:
        for at in range(0, len(whole) - 1, MIB):
            wire.send(whole[at : min(at + MIB, len(whole) - 1)])
            async with asyncio.timeout(2):
                await wire.writer.drain()
    except (TimeoutError, ConnectionError):
        pass  # it has stopped reading, or hung up: that is what it should do


@attack("http", seconds=120)
async def messages_that_never_end(victim: Victim, scale: Scale) -> str:
    """Many sockets send all of a large message but its last byte, in one frame and in many."""
    count, highest, before = scale.of(12, 64), 0, victim.memory()

    async def weigh() -> None:
        nonlocal highest
        while True:
            highest = max(highest, victim.memory() - before)
            await asyncio.sleep(0.01)

    weighing = asyncio.create_task(weigh())
    try:
        wires: list[Wire] = []
        for fragments in (False, True):
            more = [await opened(victim) for _ in range(count)]
            await asyncio.gather(*(_begin(wire, 15 * MIB, fragments=fragments) for wire in more))
            wires += more
        honest = await opened(victim)
        honest.send(frame(TEXT, json.dumps(modern("tools/list")).encode()))
        await asyncio.wait_for(message(honest), 10)
        cut = sum(await asyncio.gather(*(wire.closed(1) for wire in wires)))
    finally:
        weighing.cancel()
    if highest > 320 * MIB:
        raise GotThrough(f"{2 * count} unfinished messages cost {highest >> 20} MiB")
    cost = f"{2 * count} unfinished messages of 15 MiB cost {highest >> 20} MiB"
    return f"{cost}; {cut} were hung up on, others are served"


@attack("http", seconds=90)
async def messages_left_unfinished(victim: Victim, scale: Scale) -> str:
    """Sockets come one after the other, send most of a large message and hang up; what came must go with them."""
    count, before, highest = scale.of(16, 60), victim.memory(), 0
    for number in range(count):
        wire = await opened(victim)
        await _begin(wire, 8 * MIB, fragments=number % 2 == 1)
        highest = max(highest, victim.memory() - before)
        wire.drop()
    await victim.ask("echo", text="still there?")
    cost = f"{count} messages of 8 MiB that were left cost {highest >> 20} MiB"
    if highest > 64 * MIB:
        raise GotThrough(cost)
    return cost


@attack("http", seconds=90)
async def unread_pings(victim: Victim, scale: Scale) -> str:
    """Pings without end whose pongs are never read."""
    before, highest = victim.memory(), 0
    wires = [await opened(victim) for _ in range(scale.of(4, 20))]
    data = frame(PING, os.urandom(125)) * 500
    for wire in wires:
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
    for _ in range(scale.of(100, 400)):
        for wire in wires:
            transport = wire.writer.transport
            if not transport.is_closing() and transport.get_write_buffer_size() < MIB:
                wire.send(data)
        await asyncio.sleep(0.01)
        highest = max(highest, victim.memory() - before)
    await victim.ask("echo", text="still there?")
    if highest > 128 * MIB:
        raise GotThrough(f"unread pings cost {highest >> 20} MiB")
    return f"{len(wires)} connections of unread pings cost {highest >> 20} MiB"


@attack("http")
async def letters_that_are_none(victim: Victim, scale: Scale) -> str:
    """Text frames that are not UTF-8, frames of no kind, masks missing: all without a traceback in the log."""
    valid = json.dumps(modern("tools/call", {"name": "echo", "arguments": {"text": "x"}})).encode()
    for data in (
        frame(TEXT, b"\xff\xfe\xfd"),
        frame(TEXT, b"\xc3", last=False) + frame(CONTINUATION, b"\x28"),
        frame(11, b"?"),
        frame(CONTINUATION, b"alone"),
        frame(PING, b"x" * 200),
        frame(8, b"\x00"),
        frame(8, b"\x03\xe8\xff"),
        b"\x81\x05hello",
        frame(2, valid),
        frame(TEXT, valid)[:-5],
    ):
        wire = await opened(victim)
        wire.send(data)
        await wire.closed(0.3)
        wire.drop()
    await victim.ask("echo", text="still there?")
    said = bytes(victim.said)
    if b"Traceback" in said or b"ERROR" in said or b"panicked" in said:
        raise GotThrough(f"the log says: {said[-400:].decode(errors='replace')}")
    return "ten malformed frames, nothing in the log"


@attack("http")
async def handshakes_that_fail(victim: Victim, scale: Scale) -> str:
    """Upgrades without a key, with a foreign origin, at another path, half of one: refused and quiet."""
    heads = [
        http("GET", "/mcp", {**HANDSHAKE, "Sec-WebSocket-Key": ""}),
        http("GET", "/mcp", {**HANDSHAKE, "Sec-WebSocket-Key": "short"}),
        http("GET", "/mcp", {**HANDSHAKE, "Sec-WebSocket-Version": "12"}),
        http("GET", "/mcp", {**HANDSHAKE, "Origin": "http://evil.example"}),
        http("GET", "/elsewhere", HANDSHAKE),
    ]
    for data in heads:
        wire = await victim.connect()
        wire.send(data)
        status, _, _ = await wire.response()
        if status == 101:
            raise GotThrough(f"accepted: {data[:200]!r}")
        wire.drop()
    said = bytes(victim.said)
    if any(word in said for word in (b"ERROR", b"Traceback", b"handshake")):  # levels are not always reported
        raise GotThrough(f"the log says: {said[-400:].decode(errors='replace')}")
    return f"{len(heads)} refused, nothing in the log"


@attack("http")
async def packed_messages(victim: Victim, scale: Scale) -> str:
    """Compression is offered in many ways, and messages come packed that become hundreds of megabytes."""
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(b" " * (scale.of(64, 512) * MIB)) + packer.flush(zlib.Z_SYNC_FLUSH)
    before, agreed = victim.memory(), 0
    for offer in (
        "permessage-deflate",
        "permessage-deflate; client_max_window_bits; server_no_context_takeover",
        "permessage-deflate; server_max_window_bits=8, permessage-deflate",
        "x-webkit-deflate-frame",
    ):
        wire = await victim.connect()
        wire.send(http("GET", "/mcp", {**HANDSHAKE, "Sec-WebSocket-Extensions": offer}))
        head = await wire.reader.readuntil(b"\r\n\r\n")
        agreed += b"sec-websocket-extensions" in head.lower()
        for _ in range(4):
            wire.send(frame(TEXT | 0x40, packed[: 4 * MIB]))
        if not await wire.closed(10):
            raise GotThrough(f"a packed message is taken after {offer}")
    await victim.ask("echo", text="still there?")
    grown = (victim.memory() - before) >> 20
    if agreed or grown > 32:
        raise GotThrough(f"{agreed} offers were agreed to, {grown} MiB")
    return f"no offer was agreed to, packed messages end the connection, {grown} MiB"
