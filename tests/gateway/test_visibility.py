"""What one caller sees and another does not: `Server.hide`, `Context.show` and `Context.hide`."""

from typing import Any

import pytest

from dovetail import Client, Context, Principal, ProtocolError, Refusal, Server, StateError, ToolError
from dovetail.auth import StaticTokens
from dovetail.gateway import Proxy
from dovetail.stores import MemoryStore
from tests.support.aio import run
from tests.support.waiting import until
from tests.support.web import served

MODERN, LEGACY = "2026-07-28", "2025-06-18"


def house(**options: Any) -> Server:
    server = Server("house", "1", **options)
    server.add_tool(lambda: "boom", name="erase", description="d", tags=["admin"])
    server.add_tool(lambda: "log", name="logs", description="d", tags=["admin"])

    @server.tool
    async def unlock(ctx: Context) -> str:
        await ctx.show(tags=["admin"])
        return "open"

    @server.tool
    async def lock(what: str, ctx: Context) -> str:
        await ctx.hide(what)
        return "shut"

    server.hide(tags=["admin"])
    return server


BARE = pytest.mark.bare("ResponseLimit offers resources, and who is told of tools is told of them as well")


async def seen(client: Client) -> set[str]:
    """The listed components; all others cannot be called."""
    names = {tool.name for tool in await client.list_tools(fresh=True)}
    for name in ("erase", "logs"):
        if name in names:
            assert (await client.call_tool(name)).text
        else:
            with pytest.raises(ProtocolError, match="Unknown tool"):
                await client.call_tool(name)
    return names


@BARE
@run
async def test_what_is_shown_in_one_session_is_not_shown_in_another() -> None:
    server = house()
    told: list[str] = []
    others: list[str] = []
    async with (
        Client(server, revision=LEGACY, on_list_changed=told.append) as one,
        Client(server, revision=LEGACY, on_list_changed=others.append) as other,
    ):
        assert await seen(one) == {"unlock", "lock"}
        await one.call_tool("unlock")
        await until(lambda: told == ["tools"])
        assert await seen(one) == {"unlock", "lock", "erase", "logs"}
        assert await seen(other) == {"unlock", "lock"}
        await one.call_tool("lock", {"what": "erase"})
        assert await seen(one) == {"unlock", "lock", "logs"}
        await one.call_tool("lock", {"what": "tag:admin"})
        assert await seen(one) == {"unlock", "lock"}
        assert others == []


@BARE
@pytest.mark.parametrize("mounted", [False, True])
@run
async def test_what_is_shown_to_one_principal_is_not_shown_to_another(mounted: bool) -> None:
    auth = StaticTokens({"a": Principal("ann"), "b": Principal("bob")})
    server = house() if mounted else house(auth=auth)
    if mounted:
        child, server = server, Server("around", "1", auth=auth)
        server.mount(child)
    told: list[str] = []
    others: list[str] = []
    async with (
        served(server) as site,
        Client(
            f"http://127.0.0.1:{site.port}/mcp", auth="a", revision=MODERN, on_list_changed=told.append
        ) as ann,
        Client(
            f"http://127.0.0.1:{site.port}/mcp", auth="b", revision=MODERN, on_list_changed=others.append
        ) as bob,
    ):
        await ann.call_tool("unlock")
        await until(lambda: told == ["tools"])
        assert await seen(ann) == {"unlock", "lock", "erase", "logs"}
        assert await seen(bob) == {"unlock", "lock"}
        assert others == []
        async with Client(f"http://127.0.0.1:{site.port}/mcp", auth="a", revision=MODERN) as again:
            assert await seen(again) == {"unlock", "lock", "erase", "logs"}


@run
async def test_without_session_and_principal_nothing_can_be_changed() -> None:
    async with Client(house(), revision=MODERN) as client:
        with pytest.raises(ToolError):
            await client.call_tool("unlock")
        assert await seen(client) == {"unlock", "lock"}


@run
async def test_a_server_that_hides_nothing_says_what_to_do() -> None:
    server = Server("plain", "1")
    problems: list[Exception] = []

    @server.tool
    async def lock(ctx: Context) -> str:
        try:
            await ctx.hide("lock")
        except StateError as error:
            problems.append(error)
        return ""

    async with Client(server, revision=LEGACY) as client:
        await client.call_tool("lock")
    assert "server.hide()" in str(problems[0])


@run
async def test_rules_are_bounded() -> None:
    async with Client(house(), revision=LEGACY) as client:
        with pytest.raises(ToolError):
            await client.call_tool("lock", {"what": "x" * 20_000})
        assert await seen(client) == {"unlock", "lock"}
    async with Client(house(), revision=LEGACY) as client:
        for number in range(100):
            await client.call_tool("lock", {"what": f"x{number}"})
        with pytest.raises(ToolError):
            await client.call_tool("lock", {"what": "one more"})
        await client.call_tool("lock", {"what": "x7"})


@run
async def test_a_session_of_a_proxy_sees_what_its_upstream_connection_sees() -> None:
    told: list[str] = []
    proxy = Proxy(house(), revision=LEGACY, connections="session")
    async with (
        Client(proxy, revision=LEGACY, on_list_changed=told.append) as client,
        Client(proxy, revision=LEGACY) as other,
    ):
        assert await seen(other) == {"unlock", "lock"}
        await client.call_tool("unlock")
        await until(lambda: "tools" in told)
        assert await seen(client) == {"unlock", "lock", "erase", "logs"}
        assert await seen(other) == {"unlock", "lock"}


@pytest.mark.parametrize("way", ["plain", "mounted", "viewed"])
@pytest.mark.parametrize("revision", [MODERN, LEGACY])
@run
async def test_the_newest_version_is_the_newest_that_the_caller_may_use(way: str, revision: str) -> None:
    auth = StaticTokens({"a": Principal("ann", scopes=frozenset({"new"})), "b": Principal("bob")})
    server = Server("shop", "1", auth=auth)
    for version, scopes in (("1.0", []), ("2.0", []), ("3.0", ["new"])):
        server.add_tool(
            lambda version=version: version, name="price", description=version, version=version, scopes=scopes
        )
    if way == "viewed":
        server.transform(exclude=["tag:nothing"])
    if way == "mounted":
        child, server = server, Server("around", "1", auth=auth)
        server.mount(child)
    async with served(server) as site:
        url = f"http://127.0.0.1:{site.port}/mcp"
        for token, newest in (("a", "3.0"), ("b", "2.0")):
            async with Client(url, auth=token, revision=revision) as client:
                (tool,) = await client.list_tools()
                assert (tool.name, tool.description) == ("price", newest)
                told = ["3.0", "2.0", "1.0"] if token == "a" else ["2.0", "1.0"]
                assert (tool.meta or {})["dovetail/versions"] == told
                assert (await client.call_tool("price")).text == newest
                assert (await client.call_tool("price", version="1.0")).text == "1.0"
        async with Client(url, auth="b", revision=revision) as client:
            with pytest.raises(Refusal, match="required: new"):
                await client.call_tool("price", version="3.0")


@run
async def test_what_a_mounted_server_shows_to_a_principal_every_worker_shows() -> None:
    store = MemoryStore()
    auth = StaticTokens({"a": Principal("ann")})
    workers: list[Server] = []
    for _ in range(2):
        worker = Server("around", "1", auth=auth, store=store)
        worker.mount(house(), prefix="h")
        workers.append(worker)
    async with served(workers[0]) as one, served(workers[1]) as other:
        async with Client(f"http://127.0.0.1:{one.port}/mcp", auth="a", revision=MODERN) as client:
            await client.call_tool("h_unlock")
        async with Client(f"http://127.0.0.1:{other.port}/mcp", auth="a", revision=MODERN) as client:
            assert (await client.call_tool("h_erase")).text == "boom"
