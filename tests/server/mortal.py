"""A server whose tasks never end: run it, kill it, and see what becomes of them."""

import asyncio
import sys
import time
from collections.abc import Callable

from dovetail import Client, Context, Server
from dovetail.stores import Store
from tests.support.shared import opened

NAMES = ("idempotent", "resumed", "once")


def make(store: Store, effects: str, clock: Callable[[], float] = time.time, *, ends: bool) -> Server:
    server = Server("mortal", store=store, clock=clock)

    def effect(name: str) -> None:
        with open(effects, "a") as file:
            file.write(f"{name}\n")

    async def work(name: str) -> None:
        effect(name)
        if not ends:
            await asyncio.Event().wait()

    async def charge() -> int:
        effect("paid")
        return 42

    @server.tool(task="required", annotations={"idempotentHint": True})
    async def idempotent() -> str:
        await work("idempotent")
        return "done again"

    @server.tool(task="required", resume=True)
    async def resumed(ctx: Context) -> str:
        number = await ctx.step("pay", charge)
        await work("resumed")
        return f"paid {number}"

    @server.tool(task="required")
    async def once() -> str:
        await work("once")
        return "done"

    return server


async def main() -> None:
    server = make(opened(sys.argv[1]), sys.argv[2], ends=False)
    async with server.running(), Client(server) as client:
        for name in NAMES:
            task = await client.create_task(name)
            sys.stdout.write(f"{task.id}\n")
            sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
