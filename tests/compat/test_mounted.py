"""Servers with names of others, mounted in one of ours."""

from typing import Any

import pytest

from dovetail import Client, Server
from dovetail.compat.fastmcp import Context, FastMCP
from dovetail.compat.mcp.server.fastmcp import FastMCP as SdkFastMCP
from tests.support.aio import run


def fastmcp() -> Any:
    child = FastMCP("child")

    @child.tool
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("Sure?", response_type=str)
        return f"{answer.action} {getattr(answer, 'data', None)}"

    child.tool(add)
    child.resource("data://one")(one)
    child.prompt(say)
    return child


def sdk() -> Any:
    child = SdkFastMCP("child")
    child.tool()(add)
    child.resource("data://one")(one)
    child.prompt()(say)
    return child


def add(a: int, b: int) -> int:
    return a + b


def one() -> str:
    return "1"


def say(x: str) -> str:
    return f"say {x}"


def yes(_: Any) -> dict[str, Any]:
    return {"value": "yes"}


@pytest.mark.parametrize("make", [fastmcp, sdk])
@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@run
async def test_what_it_has_is_shown_and_used(make: Any, revision: str) -> None:
    child, server = make(), Server("parent")
    server.mount(child, prefix="c")
    async with Client(server, revision=revision, on_elicit=yes) as client:
        assert "c_add" in [tool.name for tool in await client.list_tools()]
        assert [one.uri for one in await client.list_resources()] == ["data://c/one"]
        assert [one.name for one in await client.list_prompts()] == ["c_say"]
        assert (await client.call_tool("c_add", {"a": "1", "b": 2})).text == "3"
        if make is fastmcp:
            assert (await client.call_tool("c_ask")).text == "accept yes"
