"""Upstreams that exit, send garbage, flood, hang or have invalid names: the others keep working."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Clients, DovetailError, Principal, Server
from dovetail.auth import StaticTokens
from dovetail.gateway import ConfigError, Gateway, Proxy
from dovetail.model.meta import VIA
from tests.client.scripted import Peer, legacy
from tests.gateway.behind import listed
from tests.support.aio import run
from tests.support.waiting import HANG, found, until
from tests.support.web import served

STUB = str(Path(__file__).with_name("stub.py"))
FRONTS = ["2025-06-18", "2026-07-28"]


def stub(mode: str = "", **members: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [STUB, mode], **members}


@asynccontextmanager
async def beside(mode: str = "", front: str = "2026-07-28", **members: Any) -> AsyncIterator[Clients]:
    """A client of a server that misbehaves and of one that does not."""
    servers = {"bad": stub(mode, **members), "good": stub()}
    async with Clients(
        {"mcpServers": servers}, revision=front, on_elicit=lambda _: {"day": "monday"}
    ) as clients:
        yield clients
        assert (await clients.call_tool("good_ok")).text.startswith("ok")


async def answered(client: Client, tool: str, kinds: set[str]) -> str | None:
    """The text of a tool, or None and the kind of its error."""
    try:
        return (await client.call_tool(tool)).text
    except DovetailError as error:
        kinds.add(error.kind)
        return None


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


@pytest.mark.parametrize("front", FRONTS)
@run
async def test_a_server_that_dies_in_the_middle_of_a_call(front: str) -> None:
    async with beside(front=front) as clients:
        with pytest.raises(DovetailError, match="bad went away"):
            await clients.call_tool("bad_die")

        await until(lambda: not clients.failed)
        assert (await clients.call_tool("bad_ok")).text.startswith("ok")


@pytest.mark.parametrize("front", FRONTS)
@run
async def test_a_call_before_the_server_is_connected_again_fails_as_unavailable(front: str) -> None:
    proxy = Proxy([sys.executable, STUB, ""])
    async with Client(proxy, revision=front) as client:
        with pytest.raises(DovetailError, match="went away"):
            await client.call_tool("die")

        kinds = set[str]()
        assert (await found(partial(answered, client, "ok", kinds))).startswith("ok")
        assert kinds <= {"dependency_failed"}


@pytest.mark.parametrize("front", FRONTS)
@run
async def test_a_server_that_dies_in_the_middle_of_an_input_request(front: str) -> None:
    async with beside(front=front) as clients:
        with pytest.raises(DovetailError, match="bad went away"):
            await clients.call_tool("bad_ask")


@run
async def test_a_server_that_talks_rubbish() -> None:
    async with beside() as clients:
        assert (await clients.call_tool("bad_rubbish")).text == "after rubbish"
        with pytest.raises(DovetailError):
            await clients.call_tool("bad_wrong")
        assert (await clients.call_tool("bad_ok")).text.startswith("ok")


@pytest.mark.parametrize("mode", ["gibberish", "badlist"])
@run
async def test_a_server_that_begins_with_rubbish(mode: str) -> None:
    async with beside(mode) as clients:
        names = {tool.name for tool in await clients.list_tools()}
        assert "good_ok" in names


@pytest.mark.parametrize("mode", ["silent", "nolist"])
@run
async def test_a_server_that_never_gets_ready_does_not_hold_up_the_others(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dovetail.gateway.mounting.START_TIMEOUT", 0.01)
    async with beside(mode) as clients:
        assert await found(partial(listed, clients, "good_ok"))
        assert "not ready yet" in str(clients.failed["bad"])


@pytest.mark.parametrize("mode", ["silent", "nolist"])
@run
async def test_one_that_is_mounted_and_never_gets_ready_does_not_hold_up_the_server(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dovetail.gateway.mounting.START_TIMEOUT", 0.01)
    front = Server("front")
    front.add_tool(lambda: "mine", name="own")
    front.mount(Proxy([sys.executable, STUB, mode]), prefix="bad")
    async with Client(front) as client:
        assert (await client.call_tool("own")).text == "mine"


@run
async def test_a_server_that_is_ready_late_is_there_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dovetail.gateway.mounting.START_TIMEOUT", 0.01)
    ready, told = tmp_path / "ready", list[str]()
    servers = {"late": stub("slow", start_timeout=4.0), "good": stub()}
    servers["late"]["args"].append(str(ready))
    async with Clients({"mcpServers": servers}, on_list_changed=told.append) as clients:
        assert await found(partial(listed, clients, "good_ok"))
        assert not await listed(clients, "late_ok")
        told.clear()
        ready.touch()
        await until(lambda: "tools" in told)
        assert await found(partial(listed, clients, "late_ok"))
        assert (await clients.call_tool("late_ok")).text.startswith("ok")


@pytest.mark.parametrize("front", FRONTS)
@run
async def test_a_client_that_connects_before_any_upstream_is_ready_lists_the_tools_later(
    front: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dovetail.gateway.mounting.START_TIMEOUT", 0.01)
    ready = tmp_path / "ready"
    servers = {"late": stub("slow")}
    servers["late"]["args"].append(str(ready))
    async with Clients({"mcpServers": servers}, revision=front) as clients:
        assert "late" in clients.failed
        ready.touch()
        assert await found(partial(listed, clients, "ok"))


@run
async def test_an_upstream_that_rejects_a_caller_is_omitted_from_its_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dovetail.gateway.mounting.START_TIMEOUT", 0.01)
    monkeypatch.setattr("dovetail.gateway.list_merging.LIST_TIMEOUT", 3.0)
    gateway = Gateway({"mcpServers": {"bad": stub("silent"), "good": stub()}})
    async with served(gateway, auth=StaticTokens({"t": Principal("ann")})) as site:
        address = f"http://127.0.0.1:{site.port}/mcp"
        async with Client(address, auth="t") as client:
            assert await found(partial(listed, client, "good_ok"))


@run
async def test_a_server_that_floods_leaves_the_others_alone() -> None:
    async with beside() as clients:
        flood = asyncio.create_task(clients.call_tool("bad_flood"))
        assert (await clients.call_tool("good_ok")).text.startswith("ok")
        assert (await flood).text == "after the flood"


@pytest.mark.parametrize("front", FRONTS)
@run
async def test_a_server_that_never_answers(front: str) -> None:
    async with beside(front=front, timeout=2.0) as clients:
        with pytest.raises(DovetailError, match="bad timed out"):
            await clients.call_tool("bad_never")
        kinds = set[str]()
        assert (await found(partial(answered, clients, "bad_ok", kinds))).startswith("ok")
        assert kinds <= {"dependency_failed"}


@run
async def test_tools_that_change_between_the_list_and_the_call() -> None:
    async with beside() as clients:
        names = {tool.name for tool in await clients.list_tools()}
        assert "bad_count" in names
        await clients.call_tool("bad_move")
        assert (await clients.call_tool("bad_moved")).text.startswith("moved")
        with pytest.raises(DovetailError, match="die_not"):
            await clients.call_tool("bad_die_not")


@run
async def test_names_that_are_impossible_are_left_out_and_said_so(caplog: pytest.LogCaptureFixture) -> None:
    async with beside("names") as clients:
        names = sorted(tool.name for tool in await clients.list_tools() if tool.name.startswith("bad"))
        assert names == ["bad_fine", "bad_sp ace"]
        for name in ("bad_", "bad_" + "x" * 10_240, "bad_\x1b[31mred"):
            with pytest.raises(DovetailError) as unknown:
                await clients.call_tool(name)
            assert len(unknown.value.message) < 500
    told = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert any("count=5 list=tools" in line for line in told)
    assert len(told) < 4
    assert all(line.isprintable() and len(line) < 400 for line in told)


@run
async def test_nothing_is_left_of_servers_that_misbehaved() -> None:
    async with beside() as clients:
        pids = [int((await clients.call_tool(f"{name}_count")).text.split()[1]) for name in ("bad", "good")]
        pending = asyncio.create_task(clients.call_tool("bad_never"))
        await asyncio.sleep(0)
    with pytest.raises(Exception):  # noqa: B017, PT011  closed under it, in whatever words
        await pending
    await until(lambda: not any(map(is_alive, pids)))


@pytest.mark.parametrize("settings", [None, True, 5, "x", ["x"], {"listChanged": []}])
@run
async def test_invalid_capabilities_do_not_prevent_the_handshake(settings: Any) -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        peer.result(message, {"tools": [], "resources": [], "resourceTemplates": [], "prompts": []})

    names = ("tools", "resources", "prompts", "logging", "completions", "tasks", "extensions", "experimental")
    server = Server("front", "1")
    server.add_tool(lambda: "x", name="x", description="d")
    server.mount(Proxy(legacy(answer, "2025-11-25", **dict.fromkeys(names, settings))), prefix="bad")
    async with Client(server) as client:
        assert (await client.call_tool("x")).text == "x"
        assert [tool.name for tool in await client.list_tools()] == ["x"]


@run
async def test_a_list_that_changes_during_its_notification_is_fetched_again() -> None:
    asked = count(1)

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if message.get("method") == "tools/list":
            tool = {"name": f"t{next(asked)}", "inputSchema": {"type": "object"}}
            peer.result(message, {"tools": [tool]})
            peer.say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})

    target = legacy(answer, tools={"listChanged": True}, resources=None, prompts=None)
    async with Client(Proxy(target), cache=False) as client:
        names = {tool.name for _ in range(3) for tool in await client.list_tools()}
    assert len(names) == 3


# --- circles -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("front", FRONTS)
@run
async def test_a_client_that_makes_up_its_way_is_served_all_the_same(front: str) -> None:
    server = Server("behind", "1")
    server.add_tool(lambda: "x", name="x", description="d")
    async with Client(Proxy(server), revision=front) as client:
        for way in (5, None, "abc", {"a": 1}, [5, None], [["a"]]):
            assert (await client.call_tool("x", meta={VIA: way})).text == "x"
            assert len(await client.list_tools(meta={VIA: way}, fresh=True)) == 1


@run
async def test_a_gateway_that_is_its_own_server_over_http_is_left_out() -> None:
    own = Server("own", "1")
    own.add_tool(lambda: "x", name="x", description="d")
    async with served(own) as site:
        port = site.port
        proxy = Proxy(f"http://127.0.0.1:{port}/mcp", "again")
        own.mount(proxy, prefix="again")
        await proxy.lifecycle.start()
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            assert [tool.name for tool in await client.list_tools()] == ["x"]
            assert (await client.call_tool("x")).text == "x"
        assert "proxy loop" in str(proxy.remote.problem)
        await proxy.lifecycle.stop()


@run
async def test_two_gateways_that_forward_to_each_other_stop() -> None:
    one, two = Server("one", "1"), Server("two", "1")
    one.add_tool(lambda: "1", name="a", description="d")
    two.add_tool(lambda: "2", name="b", description="d")
    async with served(one) as first, served(two) as second:
        proxies = [
            Proxy(f"http://127.0.0.1:{site.port}/mcp", name)
            for site, name in ((second, "two"), (first, "one"))
        ]
        one.mount(proxies[0], prefix="two")
        two.mount(proxies[1], prefix="one")
        async with asyncio.timeout(HANG):
            for proxy in proxies:
                await proxy.lifecycle.start()
            async with Client(f"http://127.0.0.1:{first.port}/mcp") as client:
                names = {tool.name for tool in await client.list_tools()}
                assert {"a", "two_b"} <= names
                assert all(name.count("_") < 3 for name in names)
                assert (await client.call_tool("two_b")).text == "2"
                with pytest.raises(DovetailError):
                    await client.call_tool("two_one_two_one_a")
        for proxy in proxies:
            await proxy.lifecycle.stop()


@run
async def test_a_gateway_whose_file_starts_itself_ends(tmp_path: Path) -> None:
    """The chain of processes is one long, and the gateway serves the rest."""
    path = tmp_path / "mcp.json"
    again = ["-m", "dovetail.cli.main", "gateway", str(path), "--yes"]
    env = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    servers = {"self": {"command": sys.executable, "args": again, "env": env}, "good": stub()}
    path.write_text(json.dumps({"mcpServers": servers}))
    gateway = Gateway(path)
    async with Client(gateway) as client:
        assert "good_ok" in {tool.name for tool in await client.list_tools()}
        assert not any(tool.name.startswith("self_") for tool in await client.list_tools())
        assert "self" in gateway.failed
        await until(lambda: "starts this file again" in str(gateway.failed["self"]))


def test_a_chain_of_gateways_has_an_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": {}}')
    monkeypatch.setenv("DOVETAIL_GATEWAYS", os.pathsep.join(f"/{n}.json" for n in range(8)))
    with pytest.raises(ConfigError, match="8 nested gateways"):
        Gateway(path)


def test_a_name_in_the_vendor_namespace_is_confirmed_by_the_user(caplog: pytest.LogCaptureFixture) -> None:
    Gateway({"mcpServers": {"a": {"command": "x", "timout": 3, "description": "of another program"}}})
    (said,) = [record.getMessage() for record in caplog.records if "did you mean" in record.getMessage()]
    assert "'timeout' instead of 'timout'" in said
