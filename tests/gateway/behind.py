"""The upstream server of these tests, with every kind of component."""

import asyncio
from dataclasses import dataclass

from dovetail import Accepted, Client, Context, Server


@dataclass
class Day:
    day: str


def behind() -> Server:
    server = Server("behind", "1.2", instructions="ask first")
    server.add_resource("note://one", lambda: "first", name="one")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    def fail() -> str:
        raise ValueError("secret")

    @server.tool
    async def trip(ctx: Context) -> str:
        days = [await ctx.elicit(question, Day) for question in ("leave?", "return?")]
        return " to ".join(day.data.day for day in days if isinstance(day, Accepted))

    @server.tool
    async def sample(ctx: Context) -> str:
        return (await ctx.sample("hello")).text

    @server.tool
    async def roots(ctx: Context) -> str:
        return " ".join(root.uri for root in await ctx.list_roots())

    @server.tool
    async def steps(ctx: Context) -> str:
        await ctx.report_progress(1, 2, "half")
        await ctx.info("working")
        return "done"

    @server.tool
    async def forever() -> str:
        stopped.clear()
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    @server.tool(task="required")
    async def long(n: int) -> int:
        return n * 2

    @server.resource("city://{name}")
    def city(name: str) -> str:
        return f"about {name}"

    @server.prompt
    def ask(city: str) -> str:
        return f"How is {city}?"

    @server.completion(ref="ask", argument="city")
    def cities(value: str) -> list[str]:
        return [name for name in ("oslo", "ostrava") if name.startswith(value)]

    return server


async def listed(client: Client, name: str) -> bool | None:
    return name in {tool.name for tool in await client.list_tools(fresh=True)} or None


started = asyncio.Event()
stopped = asyncio.Event()
