"""MiniMCP (which needs the official SDK below version 2). It cannot ask its client anything."""

import asyncio
import os
import sys

import anyio
import uvicorn
from minimcp import HTTPTransport, MiniMCP, StdioTransport, StreamableHTTPTransport
from pydantic import BaseModel

BASIC = ("echo", "add", "nested", "tell", "nap")


class Sum(BaseModel):
    sum: int


class Customer(BaseModel):
    name: str
    city: str


class Line(BaseModel):
    sku: str
    count: int


class Order(BaseModel):
    customer: Customer
    lines: list[Line]


# Its own limit is 100 at once; 256 in flight are part of the measurement.
server = MiniMCP("bench", version="1.0.0", max_concurrency=1000)


@server.tool()
async def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool()
async def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(sum=a + b)


@server.tool()
async def nested(order: Order) -> int:
    """Count the pieces of an order."""
    return sum(line.count for line in order.lines)


@server.tool()
async def tell(text: str) -> str:
    """Report progress once, then answer."""
    await server.context.get_responder().report_progress(1, 1)
    return text


@server.tool()
async def nap(seconds: float) -> str:
    """Wait, as for a database."""
    await asyncio.sleep(seconds)
    return "rested"


@server.resource("bench://text", mime_type="text/plain")
async def text() -> str:
    return "some text"


@server.prompt()
async def greet(name: str) -> str:
    return f"Say hello to {name}."


def have(count: int) -> None:
    """Add tools up to the given number."""
    for name in BASIC[count:]:
        server.tool.remove(name)
    for number in range(count - len(BASIC)):

        async def filler(text: str) -> str:
            return text

        server.tool.add(filler, name=f"filler_{number}", description="One of many.")


if __name__ == "__main__":
    if "BENCH_TOOLS" in os.environ:
        have(int(os.environ["BENCH_TOOLS"]))
    if sys.argv[1] == "stdio":
        anyio.run(StdioTransport(server).run)
    else:
        # The plain transport answers with JSON alone; only the streaming one can send notifications.
        streaming = os.environ.get("BENCH_STREAMING") == "1"
        transport = StreamableHTTPTransport(server) if streaming else HTTPTransport(server)
        app = transport.as_starlette("/mcp")
        uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error")
