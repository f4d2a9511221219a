"""The server that the frameworks talk to: ``python shop.py stdio``, or ``python shop.py http PORT``."""

import asyncio
import base64
import os
import sys
from dataclasses import dataclass, field
from typing import Literal

from dovetail import Context, Image, Server, ToolError

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


@dataclass
class Sum:
    total: int


@dataclass
class Order:
    item: str
    count: int = 1
    size: Literal["small", "large"] | None = None
    extras: list[str] = field(default_factory=list[str])


server = Server("shop", version="1.0.0")
waiting: set[str] = set()
stopped: set[str] = set()


@server.tool
async def add(a: int, b: int = 1) -> Sum:
    """Add two numbers."""
    return Sum(a + b)


@server.tool
async def greet(name: str) -> str:
    """Greet a person."""
    return f"Hello, {name}!"


@server.tool(name="shop-order")
async def order(order: Order) -> Order:
    """Repeat an order."""
    return order


@server.tool
async def picture() -> list[str | Image]:
    """Show a picture."""
    return ["look:", Image(data=PIXEL, format="png")]


@server.tool
async def fail() -> str:
    """Fail in a way the model may read."""
    raise ToolError("out of paper")


@server.tool
async def wait(key: str) -> str:
    """Wait until the call is cancelled."""
    waiting.add(key)
    try:
        await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError:
        stopped.add(key)
        raise
    return ""


@server.tool
async def state(key: str) -> Literal["unknown", "waiting", "stopped"]:
    """What became of a call of `wait`."""
    return "stopped" if key in stopped else "waiting" if key in waiting else "unknown"


@server.tool
async def process() -> int:
    """The process that serves this connection."""
    return os.getpid()


@server.tool
async def revision(ctx: Context) -> str:
    """The revision of the protocol that this connection speaks."""
    return ctx.revision


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run()
    else:
        server.run("http", host="127.0.0.1", port=int(sys.argv[2]), quiet=True)
