"""What servers of others do that no page of their libraries promises: it works, or is refused in clear words."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client
from dovetail.compat.fastmcp import FastMCP
from dovetail.compat.fastmcp.server.providers.fastmcp_provider import FastMCPProvider

from .miniature import HERE, load

ERAS = ("2025-06-18", "2025-11-25", "2026-07-28")
FAMILIES = HERE / "miniatures" / "families.py"
RUN = [sys.executable, "-m", "dovetail.cli.main", "run", "--compat"]


async def called(server: Any, revision: str, *calls: tuple[str, dict[str, Any]]) -> list[list[str]]:
    """The texts of each call."""
    async with Client(server.native, revision=revision) as client:
        found = [await client.call_tool(name, given, check=False) for name, given in calls]
    return [[block.text for block in result.content] for result in found]


@pytest.mark.parametrize("revision", ERAS)
def test_three_families_in_one_process_keep_their_own_ways(revision: str) -> None:
    module = load(FAMILIES)
    call = ("who", {"values": "[1, 2]"})
    assert asyncio.run(called(module.old, revision, call)) == [["1", "2"]]
    [[said]] = asyncio.run(called(module.new, revision, call))
    assert "Input should be a valid list" in said
    assert asyncio.run(called(module.new, revision, ("who", {"values": ["1", 2]}))) == [["[1,2]"]]
    [[said]] = asyncio.run(called(module.low, revision, call))
    assert said == "Input validation error: '[1, 2]' is not of type 'array'"


@pytest.mark.parametrize("name", ["new", "old", "low"])
def test_what_a_program_prints_does_not_get_between_its_messages(name: str) -> None:
    lines = [
        {
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "who", "arguments": {"values": [1]}}},
    ]
    sent = "".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines)
    done = subprocess.run(
        [*RUN, f"{FAMILIES}:{name}"], input=sent, capture_output=True, text=True, timeout=60, env=os.environ
    )
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]
    assert "printed while it is imported" in done.stderr
    assert ("printed in the middle of a call" in done.stderr) == (name == "old")


@pytest.mark.parametrize("revision", ERAS)
def test_what_an_author_changes_inside_of_a_library_is_what_the_server_does(revision: str) -> None:
    module = load(HERE / "miniatures" / "patched.py")

    async def conversation() -> None:
        async with Client(module.mcp.native, revision=revision) as client:
            shown = {tool.name: tool for tool in await client.list_tools()}
            assert list(shown) == ["shout", "find"]
            assert list(shown["find"].input_schema["properties"]) == ["query", "limit"]
            assert (await client.call_tool("shout", {"text": "a"})).text == "A!"
            assert (await client.call_tool("find", {"query": "a"})).text == "a 3 secret!"
            assert (await client.call_tool("no_such", {}, check=False)).text.endswith("!")
            visits = [(await client.call_tool("visits", {})).text for _ in range(2)]
            assert visits == (["1!", "2!"] if revision < "2026" else ["1!", "1!"])
        async with Client(module.sdk.native, revision=revision) as client:
            assert client.server_info.version == "7.0"
            assert [tool.name for tool in await client.list_tools()] == ["find"]
            assert (await client.call_tool("find", {"query": "a"})).text == "a 3 secret!"

    asyncio.run(conversation())
    module.mcp.http_app()
    module.sdk.streamable_http_app()
    names = ["shout", "visits", "find"]
    done = ["called shout", "called find", "called visits", "called visits", "http_app"]
    assert module.mcp.calls == [*(f"registered {name}" for name in names), *done]
    assert module.sdk.seen == [
        "registered whisper", "registered find", "find", "called find", "streamable_http_app",
    ]  # fmt: skip


def test_a_circle_of_mounts_is_refused_however_it_is_closed() -> None:
    outer, middle, inner = FastMCP("outer"), FastMCP("middle"), FastMCP("inner")
    outer.mount(middle, "a")
    middle.mount(FastMCP.as_proxy(inner), "b")
    words = r"cannot be mounted in FastMCP\('inner'\): it would contain itself"
    for close in (
        lambda: inner.mount(outer, "c"),
        lambda: inner.mount(inner),
        lambda: inner.mount(FastMCP.as_proxy(outer)),
        lambda: inner.add_provider(FastMCPProvider(outer)),
    ):
        with pytest.raises(ValueError, match=words):
            close()
    outer.mount(inner, "again")  # twice is no circle


def test_a_program_with_a_circle_ends_with_the_words_and_serves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "circle.py"
    path.write_text(
        "from fastmcp import FastMCP\na, b = FastMCP('a'), FastMCP('b')\na.mount(b)\nb.mount(a)\na.run()\n"
    )
    done = subprocess.run([*RUN, path], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (1, "")
    assert "FastMCP('a') cannot be mounted in FastMCP('b'): it would contain itself" in done.stderr
