"""A server for many processes, and clients that use all of it at once."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from dovetail import Client, DovetailError, SessionLost
from tests.support.waiting import HANG

FILE = """
import os
from dovetail import Context, Server

server = Server("fleet")

@server.resource("fleet://stock/{name}")
async def stock(name: str) -> str:
    return name

@server.tool(annotations={"readOnlyHint": True})
async def pid() -> int:
    return os.getpid()

@server.tool
async def ask(number: int, ctx: Context) -> str:
    return (await ctx.sample(f"Which colour is {number}?", max_tokens=9)).text

@server.tool
async def sell(name: str) -> str:
    await server.notify_resource_updated(f"fleet://stock/{name}")
    return "sold"

@server.tool(task="required", annotations={"idempotentHint": True})
async def render(number: int) -> int:
    return number * 2
"""


def write(folder: Path) -> str:
    path = folder / "fleet.py"
    path.write_text(FILE)
    return str(path)


class Customer:
    """One client: everything it asks for, and what it did not get."""

    def __init__(self, url: str, revision: str, number: int) -> None:
        self.name = f"c{number}"
        self.failures: list[str] = []
        self.uncertain = self.made = 0
        self.heard = asyncio.Event()
        self.client = Client(
            url, revision=revision, on_sample=self._answer, on_resource_updated=lambda uri: self.heard.set()
        )
        self._tasks = revision in ("modern", "2025-11-25")

    async def _answer(self, request: Any) -> str:
        return f"grey, says {self.name} to {request.messages[0].content.text}"

    async def shop(self, calls: int) -> None:
        """``calls`` calls, a fourth of them questions, a fourth tasks, a fourth sales that it has subscribed to."""
        uri = f"fleet://stock/{self.name}"
        await self.client.subscribe_resource(uri)
        for number in range(calls):
            self.made += 1
            try:
                await self._one(number)
            except SessionLost as error:
                self._count(error.maybe_executed, error)
            except DovetailError as error:
                self._count(error.kind == "call_interrupted", error)

    def _count(self, uncertain: bool, error: DovetailError) -> None:
        if uncertain:
            self.uncertain += 1
        else:
            self.failures.append(f"{self.name}: {error.kind}: {error.message}")

    async def _one(self, number: int) -> None:
        client = self.client
        match number % 4:
            case 0:
                found = (await client.call_tool("ask", {"number": number})).text
                assert found == f"grey, says {self.name} to Which colour is {number}?", found
            case 1 if self._tasks:
                task = await client.create_task("render", {"number": number})
                assert (await task.result()).data == number * 2
            case 2:
                self.heard.clear()
                await client.call_tool("sell", {"name": self.name})
                async with asyncio.timeout(HANG):
                    await self.heard.wait()
            case _:
                await client.call_tool("pid")


EVERY = ("modern", "2025-11-25", "2025-06-18", "2025-03-26")


async def shop(urls: list[str], customers: list[Customer], *, clients: int, calls: int) -> None:
    """Many customers at once, of every revision, spread over the addresses."""
    async with AsyncExitStack() as stack:
        for number in range(clients):
            one = Customer(urls[number % len(urls)], EVERY[number % len(EVERY)], number)
            await stack.enter_async_context(one.client)
            customers.append(one)
        await asyncio.gather(*(one.shop(calls) for one in customers))
