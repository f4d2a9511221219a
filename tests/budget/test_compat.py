"""What a call of a server of others costs above one of ours: at most 25 Python calls."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from dovetail import Server
from dovetail.compat.fastmcp import FastMCP
from dovetail.compat.mcp.server.fastmcp import FastMCP as SdkFastMCP
from tests.compat.miniature import Conversation

MORE = 25
REVISIONS = ("2025-06-18", "2025-11-25", "2026-07-28")


def native() -> Any:
    server = Server("x")

    @server.tool
    async def add(a: int, b: int) -> str:
        return str(a + b)

    return server


def fastmcp() -> Any:
    server = FastMCP("x")

    @server.tool
    async def add(a: int, b: int) -> str:
        return str(a + b)

    return server.native


def sdk() -> Any:
    server = SdkFastMCP("x")

    @server.tool()
    async def add(a: int, b: int) -> str:
        return str(a + b)

    return server.native


async def cost(server: Any, revision: str) -> int:
    """The Python calls of one ``tools/call``, once everything is made that is made once."""
    talk = Conversation(server, revision)
    for _ in range(5):
        await talk.ask("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
    calls: list[str] = []

    def profile(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            calls.append(frame.f_code.co_qualname)

    sys.setprofile(profile)
    try:
        await talk.ask("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
    finally:
        sys.setprofile(None)
    return len(calls)


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("make", [fastmcp, sdk])
def test_a_call_costs_at_most_25_python_calls_more_than_ours(make: Any, revision: str) -> None:
    async def both() -> tuple[int, int]:
        return await cost(make(), revision), await cost(native(), revision)

    theirs, ours = asyncio.run(both())
    assert theirs <= ours + MORE
