"""`Proxy.replace`: the upstream changes while downstream clients stay connected."""

import asyncio

import pytest

from dovetail import Client, Server
from dovetail.errors import DovetailError
from dovetail.gateway import Proxy

from ..support.waiting import until


def named(name: str) -> Server:
    server = Server(name, version="1")

    @server.tool
    async def who() -> str:
        """Which one answers."""
        return name

    @server.resource("notes://one")
    async def one() -> str:
        """A note."""
        return name

    @server.tool
    async def touch() -> str:
        """Say that the note has changed."""
        await server.notify_resource_updated("notes://one")
        return name

    return server


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"])
def test_clients_stay_and_get_list_changes_and_subscriptions_move(revision: str) -> None:
    async def test() -> None:
        front = Proxy(named("old"))
        changed: list[str] = []
        updated: list[str] = []
        async with Client(
            front, revision=revision, on_list_changed=changed.append, on_resource_updated=updated.append
        ) as client:
            assert (await client.call_tool("who")).text == "old"
            await client.subscribe_resource("notes://one")
            new = named("new")
            new.add_tool(lambda: "more", name="more", description="One more.")
            await front.replace(new)
            await until(lambda: "tools" in changed)
            assert (await client.call_tool("who")).text == "new"
            assert "more" in [tool.name for tool in await client.list_tools()]
            await client.call_tool("touch")
            await until(lambda: updated == ["notes://one"])

    asyncio.run(test())


def test_a_server_that_cannot_be_reached_changes_nothing() -> None:
    async def test() -> None:
        front = Proxy(named("old"))
        async with Client(front) as client:
            await client.list_tools()
            with pytest.raises(DovetailError):
                await front.replace(["false"])
            assert (await client.call_tool("who")).text == "old"
            assert front.remote.problem is None

    asyncio.run(test())
