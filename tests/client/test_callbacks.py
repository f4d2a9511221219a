"""Callbacks that are slower than the server's news, or that fail."""

import asyncio
from typing import Any

import pytest

from dovetail import Client, Context, DovetailError, Server
from dovetail.settings import CALLBACKS_RUNNING
from dovetail.wire.revisions import REVISIONS

from ..support.aio import run
from ..support.web import served
from .scripted import Peer, legacy


@run
async def test_news_for_which_there_is_no_room_are_dropped_and_counted() -> None:
    gate = asyncio.Event()

    async def slow(_: Any) -> None:
        await gate.wait()

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if message.get("method") == "ping":
            for _ in range(CALLBACKS_RUNNING + 3):
                log = {"level": "info", "data": "x"}
                peer.say({"jsonrpc": "2.0", "method": "notifications/message", "params": log})
            peer.result(message, {})

    async with Client(legacy(answer), revision="legacy", on_log=slow) as client:
        await client.ping()
        assert client.violations == {"notification_queue_full": 3}
        gate.set()


def asking() -> Server:
    server = Server("asking")

    @server.tool
    async def sample(ctx: Context) -> str:
        return str(await ctx.sample("hello"))

    @server.tool
    async def elicit(ctx: Context) -> str:
        return str(await ctx.elicit("your name?", str))

    return server


async def broken(_: Any) -> str:
    raise LookupError("the address book is closed")


@pytest.mark.parametrize("revision", [row.name for row in REVISIONS])
@pytest.mark.parametrize("tool", ["sample", "elicit"])
@pytest.mark.parametrize("over", ["memory", "http"])
def test_a_callback_that_fails_is_the_cause_of_the_call_that_fails(
    over: str, tool: str, revision: str
) -> None:
    if tool == "elicit" and revision < "2025-06-18":
        pytest.skip("nobody can ask yet")

    async def called(target: Any) -> None:
        async with Client(target, revision=revision, on_sample=broken, on_elicit=broken) as client:
            with pytest.raises(DovetailError) as caught:
                await client.call_tool(tool)
            assert isinstance(caught.value.__cause__, LookupError)
            with pytest.raises(DovetailError) as unknown:
                await client.call_tool("unknown")
            assert unknown.value.__cause__ is None

    @run
    async def scenario() -> None:
        if over == "memory":
            await called(asking())
            return
        async with served(asking()) as site:
            await called(f"http://127.0.0.1:{site.port}/mcp")

    scenario()
