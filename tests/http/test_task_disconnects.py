"""A task ends if its client disconnects before it gets the task id."""

import asyncio
from typing import Any

import pytest

from dovetail import Context, Server
from dovetail.drivers.middleware_chain import Next, Request
from dovetail.middleware import Middleware
from tests.http.test_buffered_bytes import post
from tests.support.aio import run
from tests.support.rawclient import META
from tests.support.waiting import until
from tests.support.web import Web, modern, served

TASKS = {f"{META}clientCapabilities": {"extensions": {f"{META}tasks": {}}}}


class Held(Middleware):
    """Holds calls before they become tasks."""

    def __init__(self) -> None:
        self.reached, self.go_on, self.done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def call_tool(self, request: Request, call_next: Next) -> Any:
        self.reached.set()
        await self.go_on.wait()
        try:
            return await call_next(request)
        finally:
            self.done.set()


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("tool", ["begun", "detached"])
@run
async def test_a_task_ends_whose_caller_has_left_before_it_was_named(tool: str, *, leaves: bool) -> None:
    held, running = Held(), set[str]()
    server = Server("late", middleware=[held])

    async def work(name: str) -> None:
        running.add(name)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            running.discard(name)

    @server.tool(task="required")
    async def begun() -> None:
        await work("begun")

    @server.tool(task="required", asks_first=True)
    async def detached(ctx: Context) -> None:
        await ctx.continue_as_task()
        await work("detached")

    async with served(server) as site:
        connection = await site.connect()
        connection.send(post(modern("tools/call", {"name": tool, "arguments": {}}, meta=TASKS)))
        await held.reached.wait()
        if leaves:
            connection.writer.transport.abort()
            await connection.close()
        held.go_on.set()
        if leaves:  # otherwise the chain ends with the task
            await held.done.wait()
        assert (await Web(site).modern("tools/list")).status == 200
        await until(lambda: running == (set() if leaves else {tool}))
