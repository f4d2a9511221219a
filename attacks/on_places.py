"""Attacks on what a server has only so much of: bytes, calls, streams, sessions, tasks."""

from __future__ import annotations

import asyncio
import json
import time

from .report import GotThrough, Scale, attack
from .victim import Json, Victim, Wire, call, http, initialize, modern, modern_headers, request, serve

MIB = 1 << 20
TOGETHER = 30
"""Pipelined requests, so that the test measures the server and not the context switches."""


async def _post(wire: Wire, session: str | None, message: Json) -> tuple[int, bytes]:
    wire.send(http(headers={"Mcp-Session-Id": session} if session else {}, body=message))
    status, _, body = await wire.response()
    return status, body


@attack("http", seconds=90)
async def hang_ups_behind_a_pipeline(victim: Victim, scale: Scale) -> str:
    """Clients start long calls, pipeline one more request after each, and disconnect."""
    count = scale.of(50, 300)
    for _ in range(count):
        wire = await victim.connect()
        wire.send(call("nap", seconds=600) + call("echo", text="x"))
        await wire.writer.drain()
    began = await victim.settled(lambda: _at_least(victim, count // 2), 20)
    for wire in victim.wires:
        wire.drop()
    if not await victim.settled(lambda: _at_most(victim, 0), 20):
        raise GotThrough(f"{await victim.ask('at_work')} of {count} calls run on after 20 s")
    return f"{count} calls{'' if began else ' (not all began)'} ended within 20 s"


@attack("http", seconds=120)
async def streams_left_behind_a_pipeline(victim: Victim, scale: Scale) -> str:
    """Clients open event streams, pipeline one more request after each, and disconnect; then others open streams."""
    count = scale.of(60, 2500)
    listening = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    data = http(headers=modern_headers(listening), body=listening)
    for _ in range(count):
        wire = await victim.connect()
        wire.send(data + call("echo", text="x"))
        await wire.writer.drain()
        wire.drop()

    async def served() -> bool:
        wire = await victim.connect()
        wire.send(data)
        try:
            head = await asyncio.wait_for(wire.reader.readuntil(b"\r\n\r\n"), 5)
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
            return False
        finally:
            wire.drop()
        return b" 200 " in head.split(b"\r\n")[0]

    if not await victim.settled(served, 40):
        raise GotThrough(f"after {count} abandoned streams no new one is served")
    return f"{count} abandoned streams left room for a new one"


@attack("http", seconds=120)
async def clients_that_read_nothing(victim: Victim, scale: Scale) -> str:
    """Clients ask for much and take nothing of it."""
    count = scale.of(20, 100)
    before, highest = victim.memory(), 0
    for _ in range(count):
        wire = await victim.connect()
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        wire.send(call("big", size=8 * MIB))
        await wire.writer.drain()
        highest = max(highest, victim.memory() - before)
    for _ in range(10):
        await victim.ask("echo", text="still there?")
        highest = max(highest, victim.memory() - before)
        await asyncio.sleep(0.1)
    if highest > 400 * MIB:
        raise GotThrough(f"{count} clients that read nothing cost {highest >> 20} MiB")
    return f"{count} clients that read nothing cost {highest >> 20} MiB, others are served"


@attack("http", seconds=90)
async def a_batch_that_answers_much(victim: Victim, scale: Scale) -> str:
    """One small batch asks for gigabytes of answers."""
    session = await victim.session("2025-03-26")
    calls = [request("tools/call", {"name": "big", "arguments": {"size": 2 * MIB}}) for _ in range(900)]
    before, highest = victim.memory(), 0
    wire = await victim.connect()
    wire.send(http(headers={"Mcp-Session-Id": session}, body=json.dumps(calls).encode()))

    async def grown() -> bool:
        nonlocal highest
        highest = max(highest, victim.memory() - before)
        return highest > 400 * MIB

    if await victim.settled(grown, scale.of(2, 10)):
        raise GotThrough(f"a batch of {len(calls)} calls cost {highest >> 20} MiB")
    await victim.ask("echo", text="still there?")
    return f"a batch of {len(calls)} calls for 1.8 GiB cost {highest >> 20} MiB"


@attack("http", seconds=90)
async def bodies_that_never_end(victim: Victim, scale: Scale) -> str:
    """Many clients send all of a large body but its last byte."""
    count, size = scale.of(24, 64), 15 * MIB
    before, highest = victim.memory(), 0
    for _ in range(count):
        wire = await victim.connect()
        wire.send(http(headers={"Content-Length": str(size)}))
        try:
            for _ in range(15):
                wire.send(b" " * (MIB - 1))
                async with asyncio.timeout(2):
                    await wire.writer.drain()
        except (TimeoutError, ConnectionError):
            pass  # it has stopped reading, or refused: that is what it should do
        highest = max(highest, victim.memory() - before)
    await victim.ask("echo", text="still there?")
    if highest > 320 * MIB:
        raise GotThrough(f"{count} unfinished bodies cost {highest >> 20} MiB")
    return f"{count} unfinished bodies of {size >> 20} MiB cost {highest >> 20} MiB, others are served"


@attack("http", seconds=400)
async def addresses_without_end(victim: Victim, scale: Scale) -> str:
    """Sessions subscribe to as many long addresses as they may."""
    sessions, before = scale.of(10, 20), victim.memory()
    wire = await victim.connect()
    for _ in range(sessions):
        headers = {"Mcp-Session-Id": await victim.session()}
        for first in range(0, scale.of(100, 1000), 10):
            asked = [request("resources/subscribe", {"uri": _long(first + one)}) for one in range(10)]
            wire.send(b"".join(http(headers=headers, body=one) for one in asked))
            for _ in asked:
                await wire.response()
    grown = (victim.memory() - before) >> 20
    if grown > scale.of(32, 128):
        raise GotThrough(f"{sessions} sessions' addresses cost {grown} MiB")
    return f"{sessions} sessions' addresses cost {grown} MiB"


@attack("http", seconds=90)
async def calls_nobody_waits_for(victim: Victim, scale: Scale) -> str:
    """Batches of long calls are posted, and the clients hang up."""
    posts = scale.of(5, 20)
    for _ in range(posts):
        session = await victim.session("2025-03-26")
        calls = [request("tools/call", {"name": "nap", "arguments": {"seconds": 600}}) for _ in range(1000)]
        wire = await victim.connect()
        wire.send(http(headers={"Mcp-Session-Id": session}, body=json.dumps(calls).encode()))
        await wire.writer.drain()
        await victim.ask("echo", text="x")
        wire.drop()
    begun = time.monotonic()
    while (left := await victim.ask("at_work")) > 2000:  # a hang-up is noticed within 20 s
        if time.monotonic() - begun > 20:
            raise GotThrough(f"{left} calls nobody waits for are running")
        await asyncio.sleep(0.1)
    return f"{posts} posts of 1,000 calls each left {left} running"


@attack("http", named=True)
async def one_takes_all_tasks(victim: Victim, scale: Scale) -> str:
    """One session starts as many tasks as it can; another one wants a single task."""
    ability = {f"{'io.modelcontextprotocol'}/tasks": {}}

    async def start(wire: Wire, seconds: float, user: str) -> Json:
        message = modern("tools/call", {"name": "job", "arguments": {"seconds": seconds}})
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = {"extensions": ability}
        wire.send(http(headers={**modern_headers(message), "X-User": user}, body=message))
        _, _, body = await wire.response()
        return json.loads(body)

    wire = await victim.connect()
    refused = 0
    for _ in range(1100):
        answer = await start(wire, 600, "greedy")
        refused += "error" in answer
        if refused > 3:
            break
    answer = await start(wire, 0, "modest")
    if "error" in answer:
        raise GotThrough(f"no task for anybody else: {answer['error']}")
    return f"one principal was refused after its share ({refused} refusals), another got its task"


@attack("http", seconds=120, own=True)
async def an_ended_session_comes_back(host: str, scale: Scale) -> str:
    """A session is ended, three times as many others as a server remembers too, and its id is tried again."""
    remembered = scale.of(60, 500)
    async with serve(host, VICTIM_SESSIONS=str(remembered)) as small:
        wire, first = await small.connect(), await small.session()
        await _end(wire, [first])
        for _ in range(3 * remembered // TOGETHER):
            wire.send(http(body=initialize()) * TOGETHER)
            opened = [(await wire.response())[1] for _ in range(TOGETHER)]
            await _end(wire, [headers["mcp-session-id"] for headers in opened if "mcp-session-id" in headers])
        status, body = await _post(wire, first, request("tools/list"))
    if status != 404:
        raise GotThrough(f"the ended session answers again: {status} {body[:100]!r}")
    return f"it stays unknown after {3 * remembered} others, where {remembered} are remembered"


def _long(number: int) -> str:
    return f"thing://{number}" + "x" * 8000


async def _end(wire: Wire, sessions: list[str]) -> None:
    none = {"Content-Type": "", "Content-Length": ""}
    wire.send(b"".join(http("DELETE", headers={"Mcp-Session-Id": id, **none}) for id in sessions))
    for _ in sessions:
        status, _, body = await wire.response()
        if status != 204:
            raise GotThrough(f"an honest goodbye was answered {status}: {body[:100]!r}")


@attack("http", named=True)
async def cursors_of_others(victim: Victim, scale: Scale) -> str:
    """The cursor of one principal's list is used by another."""
    wire = await victim.connect()

    async def page(user: str, cursor: str | None) -> Json:
        message = modern("tools/list", {"cursor": cursor} if cursor else {})
        wire.send(http(headers={**modern_headers(message), "X-User": user}, body=message))
        return json.loads((await wire.response())[2])

    cursor = (await page("alice", None))["result"]["nextCursor"]
    if "result" not in await page("alice", cursor):
        raise GotThrough("alice cannot go on with her own list")
    if "result" in await page("mallory", cursor):
        raise GotThrough("mallory goes on with alice's list")
    return "a cursor serves only whom it was given to"


@attack("http")
async def slow_words(victim: Victim, scale: Scale) -> str:
    """Messages that are small to send and slow to refuse: unknown arguments, long progress tokens, deep values."""
    arguments = {f"argument_number_{number}": number for number in range(4000)}
    deep = "[" * 100_000 + "]" * 100_000
    token = request("tools/call", {"name": "echo", "_meta": {"progressToken": "x" * MIB}})
    token["params"]["_meta"].update(modern("x")["params"]["_meta"])
    bodies = {
        "unknown arguments": call("forty", **arguments),
        "depth": http(body=f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{deep}}}'.encode()),
        "progress token": http(headers=modern_headers(token), body=token),
    }
    clock = asyncio.get_running_loop().time
    slowest = ""
    for name, data in bodies.items():
        wire = await victim.connect()
        begun = clock()
        wire.send(data)
        status, _, body = await wire.response()
        took = clock() - begun
        slowest += f"{name} {took * 1000:.0f} ms ({status}); "
        if took > 0.5:
            raise GotThrough(f"{name} took {took:.1f} s")
        if name == "progress token" and b"error" not in body:
            raise GotThrough("a progress token of a mebibyte is taken")
    return slowest.rstrip("; ")


async def _at_least(victim: Victim, count: int) -> bool:
    return await victim.ask("at_work") >= count


async def _at_most(victim: Victim, count: int) -> bool:
    return await victim.ask("at_work") <= count
