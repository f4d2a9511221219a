"""What one tools/call costs, bytes in to bytes out, in Python calls: a number that does not flutter."""

import asyncio
import gc
import json
import sys
from types import FrameType
from typing import Any

import pytest

from dovetail import Server

MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def serving(tools: int) -> Server:
    server = Server("budget", "1")

    @server.tool
    async def add(a: int, b: int = 2) -> int:
        """Add."""
        return a + b

    for index in range(tools - 1):
        server.add_tool(add, name=f"add_{index}")
    return server


def message(method: str, **params: Any) -> bytes:
    return json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, separators=(",", ":")
    ).encode()


def count(server: Server, data: bytes, scope: dict[str, Any] | None = None) -> int:
    calls = 0

    def profile(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    async def measure() -> None:
        for _ in range(3):  # caches fill on the way
            await server.handle(data, scope)
        gc.disable()  # calls of the garbage collector do not count
        sys.setprofile(profile)
        try:
            reply = await server.handle(data, scope)
        finally:
            sys.setprofile(None)
            gc.enable()
        assert reply is not None
        assert b'"result"' in reply

    asyncio.run(measure())
    return calls


CALL = message("tools/call", name="add", arguments={"a": 1}, _meta=MODERN)


def test_a_modern_call_stays_within_its_budget() -> None:
    assert count(serving(1), CALL) <= 25


@pytest.mark.parametrize(
    ("revision", "most"), [("2024-11-05", 35), ("2025-03-26", 35), ("2025-06-18", 34), ("2025-11-25", 34)]
)
def test_a_legacy_call_stays_within_its_budget(revision: str, most: int) -> None:
    call = message("tools/call", name="add", arguments={"a": 1})
    assert count(serving(1), call, {"revision": revision}) <= most


def test_the_number_of_tools_does_not_matter() -> None:
    assert count(serving(1), CALL) == count(serving(300), CALL)


def test_a_list_that_was_served_before_is_served_from_its_bytes() -> None:
    listing = message("tools/list", _meta=MODERN)
    assert count(serving(100), listing) <= 21
    assert count(serving(10), listing) == count(serving(100), listing)


def test_a_page_of_a_long_list_costs_no_look_at_the_others() -> None:
    calls = 0

    def profile(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    async def measure() -> None:
        server = serving(1000)
        reply = await server.handle(message("tools/list", limit=10, _meta=MODERN))
        assert reply is not None
        cursor = json.loads(reply)["result"]["nextCursor"]
        sys.setprofile(profile)
        try:
            await server.handle(message("tools/list", limit=10, cursor=cursor, _meta=MODERN))
        finally:
            sys.setprofile(None)

    asyncio.run(measure())
    assert calls < 300


def test_a_call_starts_no_task() -> None:
    async def measure() -> None:
        server = serving(1)
        before = len(asyncio.all_tasks())
        seen: list[int] = []

        @server.tool
        async def look() -> str:
            seen.append(len(asyncio.all_tasks()))
            return ""

        await server.handle(message("tools/call", name="look", _meta=MODERN))
        assert seen == [before]

    asyncio.run(measure())
