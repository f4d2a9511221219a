"""Attacks of a parent process over pipes, and of a client with many TCP connections."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress

from .report import GotThrough, Scale, attack
from .victim import Piped, Victim, modern

MIB = 1 << 20


def _hello() -> bytes:
    return json.dumps(modern("tools/call", {"name": "echo", "arguments": {"text": "hello"}})).encode() + b"\n"


async def _honest(victim: Piped, what: str) -> None:
    try:
        async with asyncio.timeout(20):
            await victim.answers(modern("tools/call", {"name": "echo", "arguments": {"text": "hello"}}))
    except TimeoutError:
        raise GotThrough(f"no answer after {what}: {victim.said[-300:].decode(errors='replace')}") from None


@attack("stdio", seconds=90)
async def strange_lines(victim: Piped, scale: Scale) -> str:
    """A line of NULs, of a hundred megabytes, nested a million times, of nothing but line ends."""
    await _honest(victim, "nothing")
    big, told = scale.of(20, 100) * MIB, list[str]()
    deep = scale.of(100_000, 1_000_000)
    for what, line in {
        "NULs": b"\0" * MIB,
        "spaces": b" " * 4 * MIB,
        "line ends": b"\n" * MIB,
        "carriage returns": b"\r" * MIB,
        "arrays": b"[" * deep,
        "objects": b'{"a":' * deep,
        "closed arrays": b"[" * deep + b"]" * deep,
        "params": b'{"jsonrpc":"2.0","id":1,"method":"x","params":' + b"[" * deep + b"]" * deep + b"}",
        "a long text": b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * big + b'"}',
        "no JSON": b"x" * big,
        "half a character": b'{"jsonrpc":"2.0","id":1,"method":"\xc3',
        "a mark at its start": b"\xef\xbb\xbf{}",
        "a long number": b'{"jsonrpc":"2.0","id":' + b"9" * MIB + b',"method":"ping"}',
    }.items():
        before, begun = victim.memory(), time.monotonic()
        await victim.pour(line + b"\n")
        await _honest(victim, what)
        took, grown = time.monotonic() - begun, (victim.memory() - before) >> 20
        told.append(f"{what} {took * 1000:.0f} ms")
        if grown > 64:
            raise GotThrough(f"{what} cost {grown} MiB")
    if b"Traceback" in victim.said:
        raise GotThrough(f"the log says: {victim.said[-600:].decode(errors='replace')}")
    return ", ".join(told)


@attack("tcp", seconds=90)
async def lines_without_end(victim: Victim, scale: Scale) -> str:
    """Many peers send a line that does not end, of text, of NULs or of brackets."""
    before, highest, cut = victim.memory(), 0, 0
    pieces = (b"x" * MIB, b"\0" * MIB, b"[" * MIB, b" " * MIB)
    for number in range(scale.of(16, 64)):
        wire = await victim.connect()
        wire.send(_hello() + b'{"jsonrpc":"2.0","id":2,"method":"')
        await wire.line()
        with suppress(ConnectionError, TimeoutError):
            for _ in range(scale.of(8, 15)):
                wire.send(pieces[number % 4])
                async with asyncio.timeout(2):
                    await wire.writer.drain()
        highest = max(highest, victim.memory() - before)
        cut += wire.writer.transport.is_closing()
    honest = await victim.connect()
    honest.send(_hello())
    if await asyncio.wait_for(honest.line(), 10) is None:
        raise GotThrough("an honest peer is not answered")
    if highest > 200 * MIB:
        raise GotThrough(f"they cost {highest >> 20} MiB")
    return f"they cost {highest >> 20} MiB, {cut} were hung up on, others are served"


@attack("tcp", seconds=60)
async def more_peers_than_places(victim: Victim, scale: Scale) -> str:
    """Peers connect and say nothing, more of them than there is room for; then they leave."""
    wires = [await victim.connect() for _ in range(scale.of(1020, 3000))]
    late = wires[1000:]
    refused = sum(await asyncio.gather(*(wire.closed(5) for wire in late)))
    grown = victim.memory() >> 20
    for wire in wires:
        wire.drop()

    async def served() -> bool:
        honest = await victim.connect()
        honest.send(_hello())
        with suppress(TimeoutError, ConnectionError):
            answer = await asyncio.wait_for(honest.line(), 2)
            return answer is not None and "result" in answer
        return False

    if not await victim.settled(served, 20):
        raise GotThrough("when they have left nobody is served")
    if refused < len(late):
        raise GotThrough(f"{len(late) - refused} over the limit were let in")
    return f"{refused} of {len(wires)} were refused, {grown} MiB in all, and others are served when they have left"
