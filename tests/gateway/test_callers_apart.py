"""Callers are isolated: connections, notifications, log levels and upstream processes belong to one caller."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Context, Principal, ProtocolError, Server
from dovetail.auth import StaticTokens
from dovetail.gateway import Proxy
from tests.support.aio import run
from tests.support.waiting import until
from tests.support.web import served

LEGACY, MODERN = "2025-11-25", "2026-07-28"
BOTH = [LEGACY, MODERN]
CALLERS = {"a": Principal("ann"), "b": Principal("bob")}


def notes(**options: Any) -> Server:
    """A server that shows a resource to all callers until they hide it for themselves."""
    server = Server("notes", "1", **options)

    @server.resource("note://today")
    def today() -> str:
        return "sun"

    @server.tool
    async def hide(ctx: Context) -> str:
        await ctx.hide("note://today")
        return "hidden"

    @server.tool
    async def show(ctx: Context) -> str:
        await ctx.show("note://today")
        return "shown"

    @server.tool
    async def speak(ctx: Context) -> str:
        await ctx.info("spoken")
        return "said"

    server.hide()
    return server


class Ears:
    """What one client has heard."""

    def __init__(self) -> None:
        self.lists: list[str] = []
        self.updates: list[str] = []
        self.logs: list[Any] = []

    def options(self) -> dict[str, Any]:
        return {
            "on_list_changed": self.lists.append,
            "on_resource_updated": self.updates.append,
            "on_log": lambda params: self.logs.append(params.data),
        }


@asynccontextmanager
async def ann_and_bob(
    server: Server, revision: str
) -> AsyncIterator[tuple[tuple[Client, Ears], tuple[Client, Ears]]]:
    async with served(server) as site:
        url = f"http://127.0.0.1:{site.port}/mcp"
        one, other = Ears(), Ears()
        async with (
            Client(url, auth="a", revision=revision, **one.options()) as ann,
            Client(url, auth="b", revision=revision, **other.options()) as bob,
        ):
            yield (ann, one), (bob, other)


@asynccontextmanager
async def front_of(way: str, back: str) -> AsyncIterator[tuple[Server, Server]]:
    """A server with two callers, and where its notes come from."""
    auth = StaticTokens(CALLERS)
    if way == "own":
        server = notes(auth=auth)
        yield server, server
    elif way == "mounted":
        child, server = notes(), Server("around", "1", auth=auth)
        server.mount(child)
        yield server, child
    else:
        behind = notes(auth=StaticTokens(CALLERS))
        async with served(behind) as site:
            url = f"http://127.0.0.1:{site.port}/mcp"
            proxy = Proxy(url, auth=lambda who: who and who.subject[0], revision=back)
            server = Server("around", "1", auth=auth)
            server.mount(proxy)
            yield server, behind


@pytest.mark.parametrize("way", ["own", "mounted", "behind 2025-11-25", "behind 2026-07-28"])
@pytest.mark.parametrize("revision", BOTH)
@run
async def test_a_caller_that_loses_sight_of_a_resource_gets_no_more_updates(revision: str, way: str) -> None:
    async with (
        front_of(way.split()[0], way.split()[-1]) as (server, source),
        ann_and_bob(server, revision) as ((ann, ears), (bob, others)),
    ):
        for client in (ann, bob):
            await client.subscribe_resource("note://today")
        await source.notify_resource_updated("note://today")
        await until(lambda: ears.updates == others.updates == ["note://today"])
        await ann.call_tool("hide")
        with pytest.raises(ProtocolError):
            await ann.read_resource("note://today")
        await source.notify_resource_updated("note://today")
        await until(lambda: len(others.updates) == 2)
        await ann.call_tool("show")
        await source.notify_resource_updated("note://today")
        await until(lambda: len(others.updates) == 3 and len(ears.updates) >= 2)
        assert ears.updates == ["note://today"] * 2


@pytest.mark.parametrize("back", BOTH)
@pytest.mark.parametrize("revision", BOTH)
@run
async def test_a_list_change_for_one_principal_is_sent_to_that_principal_only(
    revision: str, back: str
) -> None:
    async with (
        front_of("behind", back) as (server, _),
        ann_and_bob(server, revision) as ((ann, ears), (bob, others)),
    ):
        for client in (ann, bob):
            assert [one.uri for one in await client.list_resources()] == ["note://today"]
        ears.lists.clear(), others.lists.clear()
        await ann.call_tool("hide")
        await until(lambda: "resources" in ears.lists)
        assert await ann.list_resources(fresh=True) == []
        assert [one.uri for one in await bob.list_resources(fresh=True)] == ["note://today"]
        assert others.lists == []


@run
async def test_the_log_level_applies_to_the_connection_that_sets_it() -> None:
    async with (
        front_of("behind", LEGACY) as (server, _),
        ann_and_bob(server, LEGACY) as ((ann, ears), (bob, others)),
    ):
        await ann.set_logging_level("error")
        await bob.set_logging_level("info")
        for client in (ann, bob, ann, bob):
            await client.call_tool("speak")
        await until(lambda: len(others.logs) == 2)
        assert (ears.logs, others.logs) == ([], ["spoken", "spoken"])


@run
async def test_on_one_connection_the_lowest_level_applies_and_each_client_gets_its_own() -> None:
    """A server of 2025-11-25 in another process, of which two sessions share the connection."""
    one, other = Ears(), Ears()
    proxy = Proxy(notes(), revision=LEGACY)
    async with (
        Client(proxy, revision=LEGACY, **one.options()) as first,
        Client(proxy, revision=LEGACY, **other.options()) as second,
    ):
        await first.set_logging_level("debug")
        await second.set_logging_level("error")
        for client in (first, second):
            await client.call_tool("speak")
        await until(lambda: one.logs == ["spoken"])
        assert other.logs == []


@run
async def test_a_name_that_two_servers_have_is_the_one_that_the_caller_sees() -> None:
    closed = Server("closed", "1", auth=StaticTokens({"a": Principal("ann")}))
    closed.add_tool(lambda: "closed", name="where", description="")
    public = Server("public", "1")
    public.add_tool(lambda: "public", name="where", description="")
    async with served(closed) as one, served(public) as other:
        server = Server("around", "1", auth=StaticTokens(CALLERS))
        server.mount(
            Proxy(f"http://127.0.0.1:{one.port}/mcp", "closed", auth=lambda who: who and who.subject[0])
        )
        server.mount(Proxy(f"http://127.0.0.1:{other.port}/mcp", "public"))
        async with ann_and_bob(server, MODERN) as ((ann, _), (bob, _)):
            for _ in range(2):
                assert (await ann.call_tool("where")).text == "closed"
                assert (await bob.call_tool("where")).text == "public"


PROGRAM = """
import os
from dovetail import Server
server = Server("counting", "1")
count = 0
@server.tool
def add() -> str:
    global count
    count += 1
    return f"{os.getpid()} {count}"
server.run()
"""


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("mounted", [False, True])
@run
async def test_a_session_has_a_process_of_its_own_which_ends_with_it(tmp_path: Path, mounted: bool) -> None:
    (tmp_path / "counting.py").write_text(PROGRAM)
    server: Server = Proxy([sys.executable, str(tmp_path / "counting.py")], connections="session")
    if mounted:
        child, server = server, Server("around", "1")
        server.mount(child)
    seen: list[int] = []
    async with served(server) as site:
        url = f"http://127.0.0.1:{site.port}/mcp"

        async def session() -> int:
            async with Client(url, revision=LEGACY) as client:
                said = [(await client.call_tool("add")).text.split() for _ in range(2)]
                assert [count for _, count in said] == ["1", "2"]
                return int(said[0][0])

        seen += await asyncio.gather(session(), session())
        seen.append(await session())
        assert len(set(seen)) == 3
        await until(lambda: not any(alive(pid) for pid in seen))
