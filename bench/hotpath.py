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
from dovetail.settings import HttpOptions
from dovetail.transports.http.server.app import HttpApp
from dovetail.transports.http.server.builtin_server import ConnectionTable

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
    duplex, link = accept(server.dispatcher), Null()
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
            while link.count < aim:  # noqa: ASYNC110  the benchmark measures turns of the loop
                await asyncio.sleep(0)
        assert b"hello" in link.last

    return run


class Wire:
    """The transport of a connection without a socket: what is written is kept until the next request."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def get_extra_info(self, name: str) -> Any:
        return {"sockname": ("127.0.0.1", 8000), "peername": ("127.0.0.1", 5)}.get(name)

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def get_write_buffer_size(self) -> int:
        return 0


async def over_http(era: str, *, bare: bool = False) -> Run:
    """The connection of the built-in server, or that of the bare loop, without the socket."""
    wire: Any = Wire()
    if bare:
        from .servers.limit import Http

        limit = Http()
        limit.connection_made(wire)
        feed = limit.data_received
    else:
        options = HttpOptions()
        app = HttpApp(server.dispatcher, options)
        await app.state.start()
        table = ConnectionTable(app, "http", options, server.limits.max_header_bytes)
        table.start()
        connection: Any = table.protocol()
        connection.connection_made(wire)

        def feed(data: bytes) -> None:
            connection.get_buffer(-1)[: len(data)] = data
            connection.buffer_updated(len(data))

    async def ask(request: bytes) -> bytes:
        wire.written.clear()
        feed(request)
        while not wire.written:  # noqa: ASYNC110  the benchmark measures turns of the loop
            await asyncio.sleep(0)
        return b"".join(wire.written)

    driver = SocketDriver(_NoChild(), era)  # type: ignore[arg-type]
    if era == LEGACY:
        driver.session = session_of(await ask(driver.wrap(workloads.initialize(), b"initialize")))
        await ask(driver.wrap(workloads.INITIALIZED, b"notifications/initialized"))
    request = driver.template(ECHO) % FIRST_ID

    async def run(calls: int) -> None:
        reply = b""
        for _ in range(calls):
            reply = await ask(request)
        assert b"hello" in reply, reply

    return run


class _NoChild:
    port = 8000


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
    """Print the cost of a call, by function."""
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
    for package in ("asyncio", "bench"):
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
        for era, word in ((MODERN, "modern"), (LEGACY, "legacy session")):
            await examine(f"HTTP, {word}", await over_http(era))
        await examine("HTTP, the bare loop", await over_http(MODERN, bare=True))
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
