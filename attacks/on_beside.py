"""Attacks on the other routes of the app, on the event streams of 2024-11-05, and on stored state."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count

from .report import GotThrough, Scale, attack
from .victim import Victim, Wire, http, modern, modern_headers

MIB = 1 << 20
TOGETHER = 50
NOTHING = {"Content-Type": "", "Content-Length": ""}
_numbers = count()


def _get(path: str, **headers: str) -> bytes:
    return http("GET", path, {**NOTHING, **headers})


def _unknown() -> bytes:
    return _get(f"/{next(_numbers)}/" + "x" * 6000)


def _strange() -> bytes:
    """Another method, host, page and token each time."""
    number = next(_numbers)
    name = f"h{number}.example"
    headers = {"Host": name, "Origin": f"http://{name}", "Authorization": f"Bearer {number}" + "y" * 3000}
    return http(f"M{number % 5000}", "/mcp", {**NOTHING, **headers})


PLACES: dict[str, Callable[[], bytes]] = {
    "livez": lambda: _get("/livez"),
    "readyz": lambda: _get("/readyz", Accept="application/json"),
    "metrics": lambda: _get("/metrics"),
    "metadata": lambda: _get("/.well-known/oauth-protected-resource/mcp"),
    "a route": lambda: http("GET", "/own?" + "a=1&" * 5000, NOTHING),
    "a body for a route": lambda: http("GET", "/own", {}, b"x" * 100_000),
    "unknown paths": _unknown,
    "strangers": _strange,
}


async def _pour(victim: Victim, made: Callable[[], bytes], statuses: Counter[int]) -> None:
    while True:
        with suppress(OSError):
            wire = await victim.connect()
            answered = True
            while answered:
                wire.send(b"".join(made() for _ in range(TOGETHER)))
                for _ in range(TOGETHER):
                    status, _, _ = await wire.response()
                    statuses[status] += 1
                    answered = status != 0
                    if not answered:
                        break
            wire.drop()
            victim.wires.remove(wire)


@attack("http", seconds=120)
async def floods_beside_the_endpoint(victim: Victim, scale: Scale) -> str:
    """Requests for probes, metrics, metadata, custom routes and unknown paths at full speed."""
    told: list[str] = []
    for what, made in PLACES.items():
        mine, statuses, before = (
            Victim(victim.process, victim.address, victim.host),
            Counter[int](),
            victim.memory(),
        )
        floods = [asyncio.create_task(_pour(mine, made, statuses)) for _ in range(8)]
        slowest, end = 0.0, time.monotonic() + scale.of(0.4, 5.0)
        try:
            while time.monotonic() < end:
                begun = time.monotonic()
                await victim.ask("echo", text="still there?")
                slowest = max(slowest, time.monotonic() - begun)
        finally:
            for task in floods:
                task.cancel()
            await asyncio.gather(*floods, return_exceptions=True)
            for wire in mine.wires:
                wire.drop()
        grown = (victim.memory() - before) >> 20
        told.append(f"{what}: {dict(statuses)}, others waited {slowest * 1000:.0f} ms, {grown} MiB")
        if slowest > 1.0 or grown > 48:
            raise GotThrough(told[-1])
    if b"Traceback" in victim.said or b"panicked" in victim.said:
        raise GotThrough(f"the log says: {victim.said[-400:].decode(errors='replace')}")
    return "; ".join(told)


@attack("http", seconds=60)
async def bodies_for_nobody(victim: Victim, scale: Scale) -> str:
    """Hundreds of megabytes are sent to places that want no body."""
    told: list[str] = []
    for path in ("/livez", "/metrics", "/nothing", "/sse", "/own"):
        for kind, length in {"length": {"Content-Length": str(1 << 40)}, "chunks": {"Content-Length": "", "Transfer-Encoding": "chunked"}}.items():  # noqa: E501  # fmt: skip
            before, highest, sent = victim.memory(), 0, 0
            wire = await victim.connect()
            wire.send(http("POST", path, length))
            with suppress(ConnectionError, TimeoutError):
                while sent < scale.of(32, 256) * MIB and not wire.writer.transport.is_closing():
                    wire.send(b"10000\r\n" + b" " * 65536 + b"\r\n" if kind == "chunks" else b" " * 65536)
                    sent += 65536
                    async with asyncio.timeout(1):
                        await wire.writer.drain()
                    highest = max(highest, victim.memory() - before)
            wire.drop()
            told.append(f"{path} {kind} {sent >> 20} MiB: {highest >> 20}")
            if highest > 24 * MIB:
                raise GotThrough(told[-1])
    await victim.ask("echo", text="still there?")
    return "MiB of memory for what went out: " + ", ".join(told)


async def _stream(victim: Victim) -> tuple[Wire, int]:
    wire = await victim.connect()
    wire.send(_get("/sse"))
    with suppress(asyncio.IncompleteReadError, ConnectionError, TimeoutError):
        async with asyncio.timeout(10):
            head = await wire.reader.readuntil(b"\r\n\r\n")
            return wire, int(head.split(b" ")[1])
    return wire, 0


@attack("http", seconds=120)
async def streams_of_the_old_pair(victim: Victim, scale: Scale) -> str:
    """More event streams of 2024-11-05 than permitted; then all disconnect, and an honest client opens one."""
    before = victim.memory()
    opened = [await _stream(victim) for _ in range(scale.of(200, 2300))]
    statuses = Counter(status for _, status in opened)
    await victim.ask("echo", text="still there?")
    grown = (victim.memory() - before) >> 20
    for wire, _ in opened:
        wire.drop()

    async def served() -> bool:
        wire, status = await _stream(victim)
        wire.drop()
        return status == 200

    if not await victim.settled(served, 30):
        raise GotThrough(f"after {statuses} nobody gets a stream")
    if grown > scale.of(32, 128):
        raise GotThrough(f"{statuses} cost {grown} MiB")
    return f"{dict(statuses)} cost {grown} MiB, and left room for a new one"


def _introductions(scale: Scale) -> Iterator[bytes]:
    """Everything that a server could be made to remember: another one in each request, and a kilobyte of it."""
    for number in range(scale.of(1000, 5000)):
        message = modern("tools/call", {"name": f"tool-{number}" + "n" * 900, "arguments": {}})
        message["params"]["_meta"] |= {
            "io.modelcontextprotocol/clientInfo": {"name": f"c{number}" + "x" * 600, "version": "1"},
            f"example.com/{number}": {"a": {"b": {"c": "y" * 100}}},
        }
        headers = {**modern_headers(message), "Host": f"localhost:{number % 60_000}", "User-Agent": "z" * 900}
        session = {"Mcp-Session-Id": f"{number}" + "s" * 900, "Last-Event-Id": f"{number}" + "e" * 900}
        yield http(headers=headers, body=message)
        yield http(headers=session, body=json.dumps({"jsonrpc": "2.0", "id": number, "method": "m" * 900 + str(number)}).encode())  # noqa: E501  # fmt: skip
        yield http("POST", f"/messages?session_id={number}" + "q" * 900, {}, b"{}")


@attack("http", seconds=120)
async def tables_fed_by_strangers(victim: Victim, scale: Scale) -> str:
    """Names, capabilities, sessions, hosts and methods that never come twice, a kilobyte each."""
    wire, before, asked, grown, statuses = (
        await victim.connect(),
        victim.memory(),
        0,
        list[int](),
        Counter[int](),
    )
    every = list(_introductions(scale))
    for begin in range(0, len(every), TOGETHER):
        part = every[begin : begin + TOGETHER]
        wire.send(b"".join(part))
        for _ in part:
            status = (await wire.response())[0]
            statuses[status] += 1
            if status == 0:
                wire.drop()
                wire = await victim.connect()
                break
        asked += len(part)
        grown.append((victim.memory() - before) >> 20)
    quarter = grown[len(grown) // 4]
    detail = f"{asked} requests of {dict(statuses)}: {quarter} MiB after a quarter, {grown[-1]} at the end"
    if grown[-1] > 48:
        raise GotThrough(detail)
    return detail
