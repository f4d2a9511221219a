"""Tools that are found, not listed: `Server.search`."""

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail import Client, Context, Principal, ProtocolError, RegistrationError, Server, ToolError
from dovetail.gateway import ConfigError, Gateway, Proxy
from dovetail.middleware import Policy
from tests.budget.test_handle import message
from tests.support.aio import run

REVISIONS = ["2025-06-18", "2026-07-28"]


def office(**options: Any) -> Server:
    server = Server("office", "1", **options)

    @server.tool
    def send_email(recipient: str, body: str) -> str:
        """Send a message to a recipient."""
        return f"sent to {recipient}"

    @server.tool
    def listInvoices(customer: str) -> str:
        """All bills of a customer.

        Args:
            customer: The company that has to pay.
        """
        return "none"

    @server.tool
    def weather(city: str) -> str:
        """The sky over a city."""
        return f"{city}: sun"

    for number in range(100):
        server.add_tool(lambda: "x", name=f"misc_{number}", description=f"Something else, number {number}.")
    return server


async def found(client: Client, **wish: Any) -> list[str]:
    result = await client.call_tool("search_tools", wish)
    return [tool["name"] for tool in result.structured_content["tools"]]  # type: ignore[index]


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("where", ["own", "mounted", "behind", "inside"])
@run
async def test_tools_are_found_and_called(revision: str, where: str) -> None:
    server = office()
    prefix = "" if where == "own" else "o_"
    if where == "inside":
        server.search(always=["weather"])
    if where != "own":
        child, server = server, Server("around", "1")
        server.mount(Proxy(child, revision="2025-06-18") if where == "behind" else child, prefix="o")
    if where != "inside":
        server.search(always=[f"{prefix}weather"])
    outer = prefix if where == "inside" else ""
    inner = "" if where == "inside" else prefix
    async with Client(server, revision=revision) as client:
        names = [tool.name for tool in await client.list_tools()]
        assert names == [f"{prefix}weather", f"{outer}search_tools", f"{outer}call_tool"]

        async def search(**wish: Any) -> list[str]:
            told = (await client.call_tool(f"{outer}search_tools", wish)).raw.content[0]
            return re.findall(r'"name":"(\w+)"', told.text)  # type: ignore[union-attr]

        assert (await search(query="send an email"))[0] == f"{inner}send_email"
        assert (await search(query="invoice"))[0] == f"{inner}listInvoices"
        assert (await search(query="which company pays"))[0] == f"{inner}listInvoices"
        assert await search(query="recip") == [f"{inner}send_email"]
        assert await search(query="zebra") == []
        assert len(await search(query="something", limit=3)) == 3
        call = {"name": f"{inner}weather", "arguments": {"city": "Oslo"}}
        assert (await client.call_tool(f"{outer}call_tool", call)).text == "Oslo: sun"
        assert (await client.call_tool(f"{prefix}misc_7")).text == "x"
        with pytest.raises(ProtocolError, match="Unknown tool"):
            await client.call_tool(f"{outer}call_tool", {"name": "zebra"})


@run
async def test_what_is_wrong_with_a_search_is_said() -> None:
    server = office()
    server.search()
    async with Client(server) as client:
        for name, given, reason in (
            ("search_tools", {"query": 1}, "query"),
            ("search_tools", {"words": "x"}, "words"),
            ("search_tools", {"query": "x", "limit": "all"}, "limit"),
            ("call_tool", {}, "name"),
            ("call_tool", {"name": "call_tool", "arguments": {"name": "weather"}}, "cannot be called with"),
            ("call_tool", {"name": "weather", "arguments": {}}, "city"),
        ):
            with pytest.raises((ToolError, ProtocolError), match=reason):
                await client.call_tool(name, given)


@run
async def test_input_requests_of_a_tool_that_was_found_reach_the_client() -> None:
    server = Server("asking", "1")

    @server.tool
    async def trip(ctx: Context) -> str:
        answer = await ctx.elicit("when?", ["monday", "friday"])
        return str(answer.data)  # type: ignore[union-attr]

    server.search()
    for revision in REVISIONS:
        async with Client(server, revision=revision, on_elicit=lambda request: {"value": "friday"}) as client:
            assert (await client.call_tool("call_tool", {"name": "trip"})).text == "friday"


@run
async def test_layers_have_their_say_in_what_is_called_and_found() -> None:
    server = office(middleware=[Policy(disabled=["weather"])])
    server.search()
    async with Client(server) as client:
        assert "weather" not in await found(client, query="weather sky city")
        with pytest.raises(ProtocolError):
            await client.call_tool("call_tool", {"name": "weather", "arguments": {"city": "Oslo"}})


SCOPES = ["read", "write", "admin"]


@settings(max_examples=60, deadline=None)
@given(
    rights=st.lists(st.sets(st.sampled_from(SCOPES)), min_size=1, max_size=8),
    held=st.sets(st.sampled_from(SCOPES)),
    hidden=st.sets(st.integers(0, 7)),
    mounted=st.booleans(),
)
def test_search_finds_only_callable_tools(
    rights: list[set[str]], held: set[str], hidden: set[int], mounted: bool
) -> None:
    server = Server("rights", "1")
    for number, scopes in enumerate(rights):
        server.add_tool(
            lambda: "done", name=f"tool{number}", description="common words", scopes=sorted(scopes)
        )
    if mounted:
        child, server = server, Server("around", "1")
        server.mount(child)
    server.hide(*(f"tool{number}" for number in hidden))
    server.search(limit=50)
    surroundings = {"revision": "2025-06-18", "principal": Principal("ann", scopes=frozenset(held))}

    async def asked(tool: str, **arguments: Any) -> bytes:
        reply = await server.handle(message("tools/call", name=tool, arguments=arguments), surroundings)
        assert reply is not None
        return reply

    async def check() -> None:
        allowed = {
            f"tool{number}" for number, scopes in enumerate(rights) if scopes <= held and number not in hidden
        }
        for wish in ({"query": "common"}, {}):
            names = set(re.findall(r'\\"name\\":\\"(\w+)', (await asked("search_tools", **wish)).decode()))
            assert names == allowed
        for number in range(len(rights)):
            done = b'"done"' in await asked("call_tool", name=f"tool{number}")
            assert done == (f"tool{number}" in allowed)

    asyncio.run(check())


def test_names_that_are_taken_are_refused() -> None:
    server = Server("x", "1")
    server.add_tool(lambda: "", name="call_tool", description="d")
    with pytest.raises(RegistrationError, match="call_tool"):
        server.search()


PROGRAM = """
from dovetail import Server
server = Server("many")
for number in range(30):
    server.add_tool(lambda: "x", name=f"tool_{number}", description=f"Number {number}.")
"""


@pytest.mark.parametrize("by", ["file", "flag"])
@run
async def test_a_gateway_searches_as_its_file_or_a_flag_says(by: str, tmp_path: Path) -> None:
    (tmp_path / "many.py").write_text(PROGRAM)
    server = {
        "command": sys.executable,
        "args": ["-m", "dovetail.cli.main", "run", str(tmp_path / "many.py")],
    }
    server = {**server, "env": {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}}
    whole: dict[str, Any] = {"mcpServers": {"many": server}}
    if by == "file":
        whole["search"] = {"always": ["tool_7"]}
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(whole))
    words = [sys.executable, "-m", "dovetail.cli.main", "gateway", str(path), "--yes"]
    words += ["--search", "--always", "tool_7"] if by == "flag" else []
    async with Client(words, env=dict(os.environ), discovery_timeout=20) as client:
        assert [tool.name for tool in await client.list_tools()] == ["tool_7", "search_tools", "call_tool"]
        assert (await found(client, query="number 12"))[0] == "tool_12"
        assert (await client.call_tool("call_tool", {"name": "tool_12"})).text == "x"


@run
async def test_a_file_that_changes_its_mind_about_searching_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    down = {"command": str(tmp_path / "nothing")}
    path.write_text(json.dumps({"mcpServers": {"a": down}, "search": True}))
    gateway = Gateway(path)
    gateway.add_tool(lambda: "", name="own", description="d")
    async with Client(gateway) as client:
        assert [tool.name for tool in await client.list_tools()] == ["search_tools", "call_tool"]
        path.write_text(json.dumps({"mcpServers": {"a": down}}))
        await gateway.reload()
        assert [tool.name for tool in await client.list_tools(fresh=True)] == ["own"]
        path.write_text(json.dumps({"mcpServers": {"a": down}, "search": {"alwys": []}}))
        await gateway.reload()
        assert [tool.name for tool in await client.list_tools(fresh=True)] == ["own"]
    with pytest.raises(ConfigError, match="alwys"):
        Gateway(path)
