"""The server that things happen to. What guards it has is said in its environment."""

import asyncio
import json
import os
import time

from dovetail import Server
from dovetail.middleware import Middleware, RateLimit
from dovetail.middleware.memory_usage import memory
from dovetail.settings import Limits

SAFE = {"readOnlyHint": True}


def limits() -> Limits:
    """Those of the scenario; ``max_memory_bytes`` is counted from what the process has when it starts."""
    given = json.loads(os.environ.get("CHAOS_LIMITS", "{}"))
    now = memory(1)
    if "max_memory_bytes" in given and now is not None:
        given["max_memory_bytes"] += int(now.used())
    return Limits(**given)


def middleware() -> list[Middleware]:
    found: list[Middleware] = []
    if "CHAOS_RATE" in os.environ:
        found.append(RateLimit.erlmcp(block_period=float(os.environ["CHAOS_RATE"])))
    return found


server = Server("chaos", limits=limits(), middleware=middleware())


@server.tool(annotations=SAFE)
async def echo(text: str) -> str:
    return text


@server.tool(annotations=SAFE)
async def pid() -> int:
    return os.getpid()


@server.tool(annotations={"idempotentHint": True})
async def note(word: str) -> str:
    """Keep a word; once it is answered it must not be lost."""
    assert server.lifecycle.store is not None
    await server.lifecycle.store.put(f"notes/{word}", b"1")
    return word


@server.tool(annotations=SAFE)
async def noted(word: str) -> bool:
    assert server.lifecycle.store is not None
    return await server.lifecycle.store.get(f"notes/{word}") is not None


@server.tool
async def eat(megabytes: int, seconds: float) -> str:
    """Hold memory for a while."""
    held = bytearray(megabytes << 20)
    asyncio.get_running_loop().call_later(seconds, held.clear)
    return "eaten"


@server.tool(run="inline")
def grind(seconds: float) -> str:
    """Keep the event loop from everything else."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
    return "ground"


@server.tool
async def nap(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "rested"


@server.tool
async def big(size: int) -> str:
    return "x" * size


if __name__ == "__main__":
    server.run()
