"""Several versions of a tool under one name: the order, the list, and how a client names one."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail import Client, ProtocolError, RegistrationError, Server
from dovetail.gateway import Proxy
from dovetail.middleware import Policy
from dovetail.server.registry.tool_versions import order
from tests.support.aio import run
from tests.support.peer import Peer

REVISIONS = ["2025-06-18", "2026-07-28"]


def shop(*versions: str) -> Server:
    server = Server("shop", "1")
    for version in versions:
        server.add_tool(
            lambda version=version: f"price {version}", name="price", description=version, version=version
        )
    return server


def test_versions_are_ordered_as_people_read_them() -> None:
    before = ["nightly", "0.9", "1.0a1", "1.0-alpha", "1.0-rc.1", "1.0-rc.2", "1.0-rc.10"]
    ascending = [*before, "v1", "1.9", "1.10", "2.0b1", "2.0", "2025-11-25", "2026-07-28"]
    for older, newer in pairwise(ascending):
        assert order(older) < order(newer), (older, newer)
    assert order("1") == order("v1.0") == order("1.0.0+linux")
    assert order(None) < order("nightly")


@given(
    st.lists(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30), min_size=2)
)
def test_any_texts_have_an_order(versions: list[str]) -> None:
    ranked = sorted(versions, key=order)
    assert all(order(one) <= order(two) for one, two in pairwise(ranked))


@pytest.mark.parametrize("revision", REVISIONS)
@run
async def test_the_newest_is_listed_and_the_older_ones_can_be_called(revision: str) -> None:
    server = shop("1.9", "2.0-rc.1", "1.10")
    async with Client(server, revision=revision) as client:
        (tool,) = await client.list_tools()
        assert (tool.name, tool.description) == ("price", "2.0-rc.1")
        assert tool.meta == {"dovetail/version": "2.0-rc.1", "dovetail/versions": ["2.0-rc.1", "1.10", "1.9"]}
        assert (await client.call_tool("price")).text == "price 2.0-rc.1"
        assert (await client.call_tool("price", version="1.9")).text == "price 1.9"
        assert (await client.call_tool("price", version="v1.10.0")).text == "price 1.10"
        assert (await client.call_tool("price@1.9")).text == "price 1.9"
        assert (await client.call_tool("price@2.0-rc.1")).text == "price 2.0-rc.1"
        assert (await client.call_tool("price", meta={"fastmcp": {"version": "1.9"}})).text == "price 1.9"
        for name, version in (("price", "3"), ("price@3", None), ("price@", None), ("@1.9", None)):
            with pytest.raises(ProtocolError, match="Unknown tool"):
                await client.call_tool(name, version=version)


@run
async def test_a_tool_without_versions_is_called_whatever_version_is_asked_for() -> None:
    server = shop("1")
    server.add_tool(lambda: "plain", name="plain", description="d")
    async with Client(server) as client:
        assert (await client.call_tool("plain", version="7")).text == "plain"
        with pytest.raises(ProtocolError, match="Unknown tool"):
            await client.call_tool("plain@7")


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("behind", [*REVISIONS, "mounted"])
@run
async def test_versions_are_reached_through_mounts_and_proxies(revision: str, behind: str) -> None:
    child = shop("1", "2")
    front = Server("front", "1")
    front.mount(child if behind == "mounted" else Proxy(child, revision=behind), prefix="s")
    async with Client(front, revision=revision) as client:
        assert [tool.name for tool in await client.list_tools()] == ["s_price"]
        assert (await client.call_tool("s_price")).text == "price 2"
        assert (await client.call_tool("s_price", version="1")).text == "price 1"
        assert (await client.call_tool("s_price@1")).text == "price 1"
        with pytest.raises(ProtocolError):
            await client.call_tool("s_price", version="3")


@run
async def test_versions_come_and_go() -> None:
    server = shop("1", "2")
    told: list[str] = []
    async with Client(server, revision="2025-06-18", on_list_changed=told.append) as client:
        server.remove_tool("price@2")
        assert (await client.call_tool("price")).text == "price 1"
        (tool,) = await client.list_tools()
        assert tool.meta == {"dovetail/version": "1"}
        server.add_tool(lambda: "price 3", name="price", description="d", version="3")
        assert (await client.call_tool("price")).text == "price 3"
        server.remove_tool("price")
        assert await client.list_tools() == []
        with pytest.raises(ProtocolError):
            await client.call_tool("price@1")
    assert told


def test_ambiguous_unions_are_refused() -> None:
    server = shop("1.0")
    with pytest.raises(RegistrationError, match=r"version v1 of the tool 'price' is already"):
        server.add_tool(lambda: "", name="price", description="d", version="v1")
    with pytest.raises(RegistrationError, match="with and without"):
        server.add_tool(lambda: "", name="price", description="d")
    for wrong in ("", "a@b", "a b", "1" * 65, "1\n"):
        with pytest.raises(RegistrationError, match="version of"):
            server.add_tool(lambda: "", name="other", description="d", version=wrong)
    with pytest.raises(RegistrationError, match="no tool 'price@7'"):
        server.remove_tool("price@7")


@run
async def test_an_older_version_has_its_own_rights_and_runs_as_a_task() -> None:
    server = Server("shop", "1")

    @server.tool(name="draw", version="1", task="required")
    async def old(n: int) -> int:
        return n

    @server.tool(name="draw", version="2", auth=lambda principal: False)
    def new(n: int) -> int:
        return -n

    async with Client(server) as client:
        (shown,) = await client.list_tools()
        assert (shown.name, (shown.meta or {})["dovetail/version"]) == ("draw", "1")
        assert (await client.call_tool("draw", {"n": 3}, version="1")).data == 3
        assert (await client.call_tool("draw", {"n": 3})).data == 3, "the newest that the caller may use"
        with pytest.raises(ProtocolError, match="Unknown tool"):
            await client.call_tool("draw", {"n": 3}, version="2")


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("depth", [1, 2])
def test_a_policy_knows_a_version_however_it_is_asked_for(depth: int, revision: str) -> None:
    ran: list[str] = []
    home = Server("home")
    for version in ("1.0", "2.0"):

        @home.tool(name="drop", version=version)
        async def drop(version: str = version) -> str:
            """One version."""
            ran.append(version)
            return version

    server, name = home, "drop"
    for prefix in ("far", "off")[:depth]:
        around = Server(prefix)
        around.mount(server, prefix=prefix)
        server, name = around, f"{prefix}_{name}"
    server.dispatcher.pipeline.add(Policy(disabled=[f"{name}@1.0"]))

    @run
    async def scenario() -> None:
        async with server.running():
            peer = Peer(server, revision)
            for written in ("1.0", "1", "1.0.0"):
                peer.meta = {}
                assert "error" in await peer.send("tools/call", name=f"{name}@{written}", arguments={})
                peer.meta = {"dovetail/version": written}
                assert "error" in await peer.send("tools/call", name=name, arguments={})
            assert ran == []
            peer.meta = {}
            assert "result" in await peer.send("tools/call", name=name, arguments={})
            assert "result" in await peer.send("tools/call", name=f"{name}@2", arguments={})
        assert ran == ["2.0", "2.0"]

    scenario()
