"""``python -m bench.hotpath``: where the time of a call goes, layer by layer, on stdio, over HTTP and in the client.

Each path is run twice: plainly, for the time, and under the profiler, for the shares and the number of Python
calls. No driver and no other process takes part in the two server paths: bytes go in, bytes come out.
"""

from __future__ import annotations

import asyncio
import cProfile
import pstats
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from dovetail import Client
from dovetail.core.channel import Link
from dovetail.drivers.duplex import accept

from . import peers, workloads
from .peers import LEGACY, LIMIT, MODERN
from .processes import Child
from .servers.dovetail_server import server
from .sockets import SocketDriver, session_of
from .workloads import ECHO, FIRST_ID

CALLS = 5000
ROOT = str(Path(__file__).resolve().parent.parent / "src" / "dovetail")
Run = Callable[[int], Awaitable[None]]


class Null(Link):
    """A link that writes nothing."""

    def __init__(self) -> None:
        self.count = 0
        self.last = b""

    def send(self, message: bytes) -> None:
        self.count += 1
        self.last = message

    def send_many(self, messages: list[bytes]) -> None:
        self.count += len(messages)
        self.last = messages[-1]


async def over_a_stream(era: str, in_flight: int) -> Run:
    """`Duplex.received` to `Link.send`: what a stream costs without its pipe."""
    duplex, link = accept(server), Null()
    duplex.connected(link)
    if era == LEGACY:
        duplex.received(workloads.initialize())
        duplex.received(workloads.INITIALIZED)
    template = workloads.template(ECHO, era)

    async def run(calls: int) -> None:
        for first in range(FIRST_ID, FIRST_ID + calls, in_flight):
            aim = link.count + in_flight
            for number in range(first, first + in_flight):
                duplex.received(template % number)
            while link.count < aim:  # noqa: ASYNC110  turns of the loop are what is measured
                await asyncio.sleep(0)
        assert b"hello" in link.last

    return run


async def over_asgi(app: Any, era: str) -> Run:
    """The ASGI application without a web server."""
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def ask(request: bytes) -> None:
        head, _, body = request.partition(b"\r\n\r\n")
        lines = [line.partition(b": ") for line in head.split(b"\r\n")[1:]]
        event = {"type": "http.request", "body": body, "more_body": False}

        async def receive() -> dict[str, Any]:
            return event

        await app(_scope([(name.lower(), value) for name, _, value in lines]), receive, send)

    driver = SocketDriver(_Nobody(), era)  # type: ignore[arg-type]
    if era == LEGACY:
        await ask(driver.wrap(workloads.initialize(), b"initialize"))
        reply = b"\r\n".join(name + b": " + value for name, value in sent[0]["headers"]) + b"\r\n\r\n"
        driver.session = session_of(b"HTTP/1.1 200 OK\r\n" + reply)
        await ask(driver.wrap(workloads.INITIALIZED, b"notifications/initialized"))
    request = driver.template(ECHO) % FIRST_ID

    async def run(calls: int) -> None:
        for _ in range(calls):
            await ask(request)
        assert b"hello" in sent[-1]["body"], sent[-1]
        sent.clear()

    return run


class _Nobody:
    port = 8000


def _scope(headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "server": ("127.0.0.1", 8000),
        "client": ("127.0.0.1", 5),
        "scheme": "http",
        "method": "POST",
        "root_path": "",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "query_string": b"",
        "headers": headers,
    }


async def of_the_client(client: Client, in_flight: int) -> Run:
    async def run(calls: int) -> None:
        async def worker() -> None:
            for _ in range(calls // in_flight):
                result = await client.call_tool("echo", {"text": "hello"})
                assert result.text == "hello"

        await asyncio.gather(*(worker() for _ in range(in_flight)))

    await client.list_tools()
    return run


async def examine(title: str, run: Run, calls: int = CALLS) -> None:
    """Print what a call costs and who has it."""
    await run(max(64, calls // 20))
    cpu = time.process_time()
    await run(calls)
    each = (time.process_time() - cpu) / calls * 1e6
    profile = cProfile.Profile()
    profile.enable()
    await run(calls)
    profile.disable()
    stats = pstats.Stats(profile)
    shares: dict[str, float] = {}
    python = 0
    for (file, _, name), (_, count, own, _, _) in stats.stats.items():  # type: ignore[attr-defined]
        layer = _layer(file, name)
        shares[layer] = shares.get(layer, 0.0) + own
        python += 0 if file == "~" or layer == "the measurement" else count
    total = sum(share for layer, share in shares.items() if layer != "the measurement")
    print(f"{title}: {each:.1f} µs of CPU, {python / calls:.0f} Python calls")
    for layer, share in sorted(shares.items(), key=lambda one: -one[1]):
        if layer != "the measurement" and share / total >= 0.02:
            print(f"    {share / total:5.0%}  {layer}")


def _layer(file: str, name: str) -> str:
    if file.startswith(ROOT):
        return "dovetail." + ".".join(Path(file[len(ROOT) + 1 :]).with_suffix("").parts[:2])
    if file == __file__ or file.endswith(("hotpath.py", "limit.py")):
        return "the measurement"
    if file == "~":
        system = ("poll", "posix", "_socket", "recv", "send' of")
        return "system calls" if any(word in name for word in system) else "msgspec and other C"
    for package in ("asyncio", "uvicorn", "bench"):
        if f"/{package}/" in file:
            return package if package != "bench" else "the measurement"
    return "other Python"


async def main() -> None:
    wanted = sys.argv[1:] or ["stdio", "http", "client"]
    if "stdio" in wanted:
        for era, word in ((MODERN, "modern"), (LEGACY, "legacy")):
            await examine(f"stream, {word}, one by one", await over_a_stream(era, 1))
            await examine(f"stream, {word}, 64 in flight", await over_a_stream(era, 64))
    if "http" in wanted:
        from .servers.limit import app as bare

        for era, word in ((MODERN, "modern"), (LEGACY, "legacy session")):
            await examine(f"ASGI, {word}", await over_asgi(server.asgi(), era))
        await examine("ASGI, the bare app", await over_asgi(bare, MODERN))
    if "client" in wanted:
        await _clients()


async def _clients() -> None:
    with Child(LIMIT, "http") as web:
        web.wait_for_port()
        targets: dict[str, Any] = {
            "stdio": peers.command(LIMIT, "stdio"),
            "HTTP": f"http://127.0.0.1:{web.port}/mcp",
        }
        for word, target in targets.items():
            async with Client(target, revision="legacy") as client:
                for in_flight in (1, 64):
                    title = f"client, {word}, {'one by one' if in_flight == 1 else '64 at once'}"
                    await examine(title, await of_the_client(client, in_flight), 1920)


if __name__ == "__main__":
    asyncio.run(main())
