"""Attacks on newline-framed messages over TCP."""

from __future__ import annotations

import json

from .report import GotThrough, Scale, attack
from .victim import Victim, initialize, modern, request


def _line(message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


async def _traces(victim: Victim) -> list[str]:
    wire = await victim.connect()
    wire.send(_line(modern("tools/call", {"name": "traces"})))
    answer = await wire.line()
    wire.drop()
    assert answer is not None
    return answer["result"]["structuredContent"]


@attack("tcp")
async def a_web_page_posts(victim: Victim, scale: Scale) -> str:
    """A form of a web page sends JSON lines in the body of an HTTP request."""
    inner = _line(modern("tools/call", {"name": "mark", "arguments": {"word": "page"}}))
    heads = [
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\n\r\n",
        b"\r\nPOST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /" + inner.rstrip() + b" HTTP/1.1\r\n\r\n",
        b'{"x": 1}\n',
        b"\x16\x03\x01\x02\x00\n",
        b"   \n",
    ]
    for head in heads:
        wire = await victim.connect()
        wire.send(head + inner * 3)
        if not await wire.closed(5):
            raise GotThrough(f"the connection stays open after {head[:30]!r}")
    if "page" in await _traces(victim):
        raise GotThrough("the tool ran")
    return f"{len(heads)} openings that are no message: no tool ran, all closed"


@attack("tcp")
async def rubbish_after_a_good_start(victim: Victim, scale: Scale) -> str:
    """A peer that began well sends rubbish without end."""
    wire = await victim.connect()
    wire.send(_line(modern("tools/call", {"name": "echo", "arguments": {"text": "hello"}})))
    if await wire.line() is None:
        raise GotThrough("a good start was refused")
    wire.send(b"rubbish\n" * scale.of(1000, 100_000))
    if not await wire.closed(10):
        raise GotThrough("it may go on for ever")
    return "the connection was closed"


@attack("tcp", seconds=120)
async def a_heavy_introduction(victim: Victim, scale: Scale) -> str:
    """Connections introduce themselves with megabytes of metadata that would be kept for their life."""
    count, size = scale.of(4, 16), scale.of(4, 15) << 20
    before = victim.memory()
    for _ in range(count):
        wire = await victim.connect()
        wire.send(_line(initialize(title="x" * size, padding=["y"] * (size >> 6))))
        await wire.line()
    grown = (victim.memory() - before) >> 20
    if grown > 256:
        raise GotThrough(f"{count} introductions of {size >> 20} MiB cost {grown} MiB")
    return f"{count} introductions of {size >> 20} MiB cost {grown} MiB"


@attack("tcp")
async def a_batch_that_answers_much(victim: Victim, scale: Scale) -> str:
    """One small batch asks for gigabytes of answers and reads none."""
    wire = await victim.connect()
    wire.send(_line(initialize("2025-03-26")))
    await wire.line()
    wire.send(_line({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    calls = [request("tools/call", {"name": "big", "arguments": {"size": 2 << 20}}) for _ in range(900)]
    before = victim.memory()
    wire.send(_line(calls))
    highest = 0

    async def grown() -> bool:
        nonlocal highest
        highest = max(highest, victim.memory() - before)
        return highest > 512 << 20

    if await victim.settled(grown, scale.of(2, 10)):
        raise GotThrough(f"a batch of {len(calls)} calls cost {highest >> 20} MiB")
    return f"a batch of {len(calls)} calls for 1.8 GiB cost {highest >> 20} MiB"


@attack("tcp", seconds=120)
async def calls_of_many_connections(victim: Victim, scale: Scale) -> str:
    """Many connections begin as many long calls as each of them may."""
    count, before = scale.of(60, 200), victim.memory()
    calls = b"".join(
        _line(modern("tools/call", {"name": "nap", "arguments": {"seconds": 600}}, id=id))
        for id in range(1000)
    )
    for _ in range(count):
        wire = await victim.connect()
        wire.send(calls)
        await wire.writer.drain()
        wire.send(_line(modern("tools/call", {"name": "echo", "arguments": {"text": "x"}}, id="last")))
        while (answer := await wire.line()) is not None and answer.get("id") != "last":
            pass
    grown = (victim.memory() - before) >> 20
    if grown > 160:
        raise GotThrough(f"{count} connections with 1,000 calls each cost {grown} MiB")
    await _traces(victim)
    return f"{count} connections with 1,000 calls each cost {grown} MiB, others are served"


@attack("tcp", seconds=60)
async def calls_and_cancellations(victim: Victim, scale: Scale) -> str:
    """One connection begins calls and cancels them, again and again, faster than they can clear up."""
    wire = await victim.connect()
    linger = {"name": "linger", "arguments": {"seconds": 30}}
    for first in range(0, scale.of(10_000, 30_000), 500):
        ids = range(first, first + 500)
        wire.send(b"".join(_line(modern("tools/call", linger, id=id)) for id in ids))
        wire.send(b"".join(_line(_cancel(id)) for id in ids))
        await wire.writer.drain()
    wire.send(_line(modern("tools/list", id="last")))
    while (answer := await wire.line()) is not None and answer.get("id") != "last":
        pass
    other = await victim.connect()
    other.send(_line(modern("tools/call", {"name": "at_work"})))
    answer = await other.line()
    assert answer is not None
    running = answer["result"]["structuredContent"]
    if running > 2000:
        raise GotThrough(f"{running} calls of one connection run")
    return f"{running} calls of one connection run, others are served"


def _cancel(id: int) -> dict[str, object]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
