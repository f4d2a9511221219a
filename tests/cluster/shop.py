"""A server whose tasks may run anywhere; where each runs, it says itself."""

import os
from dataclasses import dataclass

from dovetail import Context, Server
from tests.support.waiting import until

server = Server("shop")


@dataclass
class Name:
    name: str


@server.tool(task="required")
async def where(secret: str) -> int:
    """The process this runs in."""
    return os.getpid()


@server.tool(task="required")
async def greet(ctx: Context) -> str:
    """Asks."""
    answer = await ctx.elicit("Who?", Name)
    return f"Hello, {answer.data.name}!" if answer.action == "accept" else "?"


@server.tool(task="required", annotations={"idempotentHint": True})
async def patient(marks: str, ctx: Context) -> int:
    """Runs until the gate is opened; reports where it runs."""
    return await _work(marks, ctx)


@server.tool(task="required")
async def once(marks: str, ctx: Context) -> int:
    """The same, but not again."""
    return await _work(marks, ctx)


async def _work(marks: str, ctx: Context) -> int:
    _mark(marks)
    await ctx.report_progress(1, 2, f"in {os.getpid()}")
    # It is for tests to give up: on a busy machine it takes a while until another worker has started.
    await until(lambda: os.path.exists(f"{marks}/gate"), limit=600)
    return os.getpid()


def _mark(marks: str) -> None:
    with open(f"{marks}/began", "a") as file:
        file.write(f"{os.getpid()}\n")
