"""Dovetail, as its documentation writes a server."""

import asyncio
import os
import sys
from dataclasses import dataclass
from typing import Any

from dovetail import Context, Server
from dovetail.settings import Limits


@dataclass
class Sum:
    sum: int


@dataclass
class Customer:
    name: str
    city: str


@dataclass
class Line:
    sku: str
    count: int


@dataclass
class Order:
    customer: Customer
    lines: list[Line]


@dataclass
class Consent:
    ok: bool


BASIC = ("echo", "add", "nested", "tell", "ask", "nap")

GUARDS = "BENCH_GUARDS" in os.environ
"""Generous ones: what they cost is measured, not what they refuse."""


def guards() -> list[Any]:
    from dovetail.middleware import ConcurrencyLimit, RateLimit

    return [RateLimit(per_client="1000000/s", total="1000000/s"), ConcurrencyLimit(per_tool=1000, total=1000)]


# Ten thousand sessions of one (nameless) caller are part of the measurement; by default one caller gets a thousand.
server = Server(
    "bench",
    version="1.0.0",
    limits=Limits(max_sessions=20_000, max_sessions_per_principal=20_000),
    middleware=guards() if GUARDS else (),
)
if GUARDS:
    server.health.add("bench", lambda: True, interval=1)


@server.tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool
async def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(a + b)


@server.tool
async def nested(order: Order) -> int:
    """Count the pieces of an order."""
    return sum(line.count for line in order.lines)


@server.tool
async def tell(text: str, ctx: Context) -> str:
    """Report progress once, then answer."""
    await ctx.report_progress(1, 1)
    return text


@server.tool
async def ask(ctx: Context) -> str:
    """Ask the user once."""
    answer = await ctx.elicit("Shall I?", Consent)
    return "yes" if answer.action == "accept" and answer.data.ok else "no"


@server.tool
async def nap(seconds: float) -> str:
    """Wait, as for a database."""
    await asyncio.sleep(seconds)
    return "rested"


@server.resource("bench://text", mime_type="text/plain")
async def text() -> str:
    return "some text"


async def touch() -> str:
    """Notify all subscribers that the text has changed."""
    await server.notify_resource_updated("bench://text")
    return "told"


@server.prompt
async def greet(name: str) -> str:
    return f"Say hello to {name}."


def have(count: int) -> None:
    """Add tools up to the given number."""

    def make(number: int) -> Any:
        async def filler(text: str) -> str:
            return text

        filler.__name__ = f"filler_{number}"
        filler.__doc__ = "One of many."
        return filler

    for name in BASIC[count:]:
        server.remove_tool(name)
    for number in range(count - len(BASIC)):
        server.tool(make(number))


if __name__ == "__main__":
    if "BENCH_TOOLS" in os.environ:
        have(int(os.environ["BENCH_TOOLS"]))
    if "BENCH_MIXED" in os.environ:
        import mixed

        for name, function in mixed.tools(int(os.environ["BENCH_MIXED"])):
            server.add_tool(function, name=name)
    if "BENCH_KEYS" in os.environ:
        from dovetail.auth import JwtVerifier

        server.dispatcher.auth = JwtVerifier(
            issuer="https://id.example", audience="https://bench.example/mcp", keys=os.environ["BENCH_KEYS"]
        )
    if "BENCH_BEHIND" in os.environ:
        from dovetail.gateway import Proxy

        server = Proxy(os.environ["BENCH_BEHIND"])
    if "BENCH_STORE" in os.environ:
        from dovetail.stores import SqliteStore

        server.lifecycle.use_store(SqliteStore(os.environ["BENCH_STORE"]))
        server.add_tool(touch)
    if sys.argv[1] == "stdio":
        server.run()
    elif sys.argv[1] == "tcp":
        server.run("tcp", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        workers = int(os.environ.get("BENCH_WORKERS", "1"))
        server.run("http", port=int(sys.argv[2]), quiet=True, metrics=GUARDS, workers=workers)
