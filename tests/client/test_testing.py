"""The public testing tools: pairs, the clock, recordings."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client, Context, Server
from dovetail.errors import DovetailError, ProtocolError
from dovetail.testing import FakeClock, Recording, connect, record, replay

from ..support.aio import run


def make_server() -> Server:
    server = Server("recorded")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def count(ctx: Context) -> str:
        await ctx.report_progress(1, 2)
        return "counted"

    return server


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
@run
async def test_a_recording_is_replayed_without_the_server(revision: str, tmp_path: Path) -> None:
    path = tmp_path / "conversation.txt"
    async with record(make_server(), path, revision=revision) as client:
        await client.list_tools()
        await client.call_tool("add", {"a": 1, "b": 2})
        await client.call_tool("count", on_progress=lambda *report: None)
    assert path.read_text().startswith("> ")
    seen: list[float] = []
    async with Client(replay(path), revision=revision) as client:
        assert client.revision == revision
        assert (
            await client.call_tool("count", on_progress=lambda *report: seen.append(report[0]))
        ).text == "counted"
        assert (await client.call_tool("add", {"b": 2, "a": 1})).data == 3
        with pytest.raises(ProtocolError, match="no tools/call with these params"):
            await client.call_tool("add", {"a": 9, "b": 9})
    assert seen == [1]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
@run
async def test_a_recording_says_by_itself_which_revision_it_is_of(revision: str) -> None:
    async with record(make_server(), revision=revision) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
    recording = client.recording
    async with Client(replay(recording), on_roots=list) as again:
        assert again.revision == revision
        assert (await again.call_tool("add", {"a": 1, "b": 2})).data == 3
    other = "2025-06-18" if revision == "2024-11-05" else "2024-11-05"
    with pytest.raises(DovetailError, match="2026-07-28|initialize" if revision > "2026" else revision):
        async with Client(replay(recording), revision=other, reconnect=False):
            pass


def test_a_recording_is_text_with_comments() -> None:
    recording = Recording.parse('# a comment\n\n> {"a":1}\n< {"b":2}\n')
    assert recording.messages == [("client", b'{"a":1}'), ("server", b'{"b":2}')]
    assert recording.text() == '> {"a":1}\n< {"b":2}\n'
    with pytest.raises(ValueError, match="line 1"):
        Recording.parse("what is this")


@run
async def test_every_character_and_every_shape_of_json_survives_a_recording() -> None:
    odd = "next\x85line, line\u2028separator, paragraph\u2029separator"
    server = Server("odd")
    server.tool(lambda: odd, name="say", description="Says it.")
    async with record(server) as client:
        await client.call_tool("say")
    async with Client(replay(Recording.parse(client.recording.text()))) as again:
        assert (await again.call_tool("say")).text == odd
    pretty = Recording()
    pretty.add("server", b'{\n  "id": 1,\r\n  "result": {}\n}')
    pretty.add("server", b"\xff is no text")
    assert len(Recording.parse(pretty.text()).messages) == 2


@pytest.mark.parametrize(
    "line",
    ["5", "[1]", "nonsense", "[" * 3000, '{"method": 5}', '{"method": "x", "id": []}', '{"method": "x", "params": [1]}',
     '{"id": {}, "result": {}}', '{"method": "initialize", "params": 5, "id": 1}'],
)  # fmt: skip
@pytest.mark.parametrize("mark", [">", "<"])
@run
async def test_what_is_no_message_in_a_recording_is_passed_over(mark: str, line: str) -> None:
    async with record(make_server(), revision="2025-11-25") as client:
        await client.call_tool("add", {"a": 1, "b": 2})
    text = f"{mark} {line}\n{client.recording.text()}"
    async with Client(replay(text), revision="2025-11-25") as again:
        assert (await again.call_tool("add", {"a": 1, "b": 2})).data == 3


@run
async def test_a_recorded_batch_is_replayed() -> None:
    async with record(make_server(), revision="2025-03-26") as client:
        await client.call_tool("add", {"a": 1, "b": 2})
    lines = client.recording.text().splitlines()
    lines = [f"< [{line[2:]}]" if line.startswith("<") else line for line in lines]
    async with Client(replay("\n".join(lines)), revision="2025-03-26") as again:
        assert (await again.call_tool("add", {"a": 1, "b": 2})).data == 3


@run
async def test_the_pair_takes_the_clients_options() -> None:
    async with connect(make_server(), "2025-06-18") as client:
        assert client.revision == "2025-06-18"


@run
async def test_the_fake_clock_runs_due_timers_in_order_and_only_when_advanced() -> None:
    clock = FakeClock(100)
    ran: list[Any] = []
    clock.call_later(2, lambda: ran.append(("b", clock())))
    clock.call_later(1, lambda: ran.append(("a", clock())))
    clock.call_later(1.5, lambda: ran.append("never")).cancel()
    sleeping = asyncio.create_task(clock.sleep(3))
    await asyncio.sleep(0)
    assert clock.waiting == [101, 102, 103]
    clock.advance(2.5)
    assert ran == [("a", 101), ("b", 102)]
    assert clock() == 102.5
    assert not sleeping.done()
    clock.advance(0.5)
    await sleeping
