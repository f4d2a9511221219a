"""What a handler sees and sends through its context."""

import asyncio
import json
import threading
import typing
from typing import Any

import pytest

from dovetail import Context, Server
from dovetail.core.channel import Session
from tests.support.aio import run
from tests.support.peer import LEGACY, MODERN, Peer
from tests.support.schemas import REVISIONS

every_revision = pytest.mark.parametrize("revision", REVISIONS)
LOG_LEVEL = "io.modelcontextprotocol/logLevel"


def methods(peer: Peer) -> list[str]:
    return [note["method"] for note in peer.notes]


@every_revision
@run
async def test_progress_increases_and_is_sent_to_callers_that_requested_it(revision: str) -> None:
    server = Server("x", "1")

    @server.tool
    async def work(ctx: Context) -> str:
        for progress in (1, 0.5, 1, float("nan"), float("inf"), 2):
            await ctx.report_progress(progress, 2, "half")
        return "done"

    peer = Peer(server, revision)
    await peer.call("work")
    assert peer.notes == []
    peer.meta = {"progressToken": "t"}
    await peer.call("work")
    params = [note["params"] for note in peer.notes]
    assert [(p["progressToken"], p["progress"], p["total"]) for p in params] == [("t", 1, 2), ("t", 2, 2)]
    assert ("message" in params[0]) is (revision > "2024-11-05")


@pytest.mark.parametrize("revision", LEGACY)
@run
async def test_a_legacy_session_gets_logs_of_its_level(revision: str) -> None:
    server = Server("x", "1", log_level="notice")

    @server.tool
    async def talk(ctx: Context) -> str:
        await ctx.debug("d")
        await ctx.info("i")
        await ctx.notice({"n": 1})
        await ctx.warning("w", logger="mine")
        await ctx.error("e")
        await ctx.critical("c")
        await ctx.log("emergency", None)
        return ""

    peer = Peer(server, revision)
    await peer.call("talk")
    levels = [note["params"]["level"] for note in peer.notes]
    assert levels == ["notice", "warning", "error", "critical", "emergency"]
    assert peer.notes[1]["params"]["logger"] == "mine"
    assert peer.notes[0]["params"]["data"] == {"n": 1}
    assert await peer.result("logging/setLevel", level="error") == {}
    peer.notes.clear()
    await peer.call("talk")
    assert [note["params"]["level"] for note in peer.notes] == ["error", "critical", "emergency"]
    assert (await peer.error("logging/setLevel", level="loud"))["code"] == -32602


@run
async def test_a_modern_request_without_a_level_gets_no_logs() -> None:
    server = Server("x", "1")

    @server.tool
    async def talk(ctx: Context) -> str:
        await ctx.info("i")
        await ctx.error("e")
        return ""

    peer = Peer(server)
    await peer.call("talk")
    assert peer.notes == []
    peer.meta = {LOG_LEVEL: "error"}
    await peer.call("talk")
    assert [note["params"]["data"] for note in peer.notes] == ["e"]
    assert (await Peer(server).error("logging/setLevel", level="info"))["code"] == -32601


@run
async def test_nothing_is_sent_in_the_name_of_a_call_that_is_over() -> None:
    server = Server("x", "1")
    kept: list[Context] = []

    @server.tool
    async def keep(ctx: Context) -> str:
        kept.append(ctx)
        return ""

    peer = Peer(server)
    peer.meta = {"progressToken": 1, LOG_LEVEL: "debug"}
    await peer.call("keep")
    await kept[0].report_progress(1)
    await kept[0].info("late")
    await kept[0].message("assistant", "late")
    assert peer.notes == []


@every_revision
@run
async def test_a_handler_knows_its_caller(revision: str) -> None:
    server = Server("x", "1")

    @server.tool
    async def who(ctx: Context) -> dict[str, Any]:
        assert ctx.server is server
        return {
            "revision": ctx.revision,
            "principal": str(ctx.principal),
            "id": ctx.request_id,
            "session": ctx.session is not None,
            "sampling": ctx.client_capabilities.has("sampling"),
            "cancelled": ctx.cancelled,
            "meta": ctx.meta.get("com.example/trace"),
        }

    peer = Peer(server, revision, principal="ann")
    peer.meta = {"com.example/trace": "abc"}
    assert json.loads(await peer.text("who")) == {
        "revision": revision,
        "principal": "ann",
        "id": 1,
        "session": revision != MODERN,
        "sampling": True,
        "cancelled": False,
        "meta": "abc",
    }


@every_revision
@run
async def test_a_handler_reads_resources_of_its_own_server(revision: str) -> None:
    server = Server("x", "1")

    @server.resource("x://{name}")
    async def read(name: str, ctx: Context) -> str:
        return f"{name} {ctx.request_id}"

    @server.tool
    async def show(ctx: Context) -> str:
        contents = await ctx.read_resource("x://a")
        return str(contents[0].text)

    @server.tool
    async def missing(ctx: Context) -> str:
        await ctx.read_resource("y://a")
        return ""

    peer = Peer(server, revision)
    assert await peer.text("show") == "a 1"
    assert (await peer.error("tools/call", name="missing"))["data"]["uri"] == "y://a"


@run
async def test_a_plain_function_waits_for_the_loop_from_its_thread() -> None:
    server = Server("x", "1")

    @server.tool
    def work(ctx: Context) -> str:
        assert threading.current_thread() is not threading.main_thread()
        ctx.wait(ctx.report_progress(1))
        answer = ctx.wait(ctx.elicit("Name?", str))
        return f"hello {answer.data}"

    for revision in ("2025-06-18", MODERN):
        peer = Peer(
            server, revision, answer=lambda method, params: {"action": "accept", "content": {"value": "Bo"}}
        )
        peer.meta = {"progressToken": 1}
        assert await peer.text("work") == "hello Bo"
        assert "notifications/progress" in methods(peer)
    await server.lifecycle.stop()


@run
async def test_a_thread_that_waits_for_an_answer_ends_with_its_call() -> None:
    server = Server("x", "1")
    asked = asyncio.Event()
    ended = threading.Event()

    @server.tool
    def work(ctx: Context) -> str:
        try:
            ctx.wait(ctx.elicit("Name?", str))
        finally:
            ended.set()
        return ""

    class Silent(Peer):
        async def request(self, method: str, params: Any) -> Any:
            asked.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(Silent(server, "2025-06-18").call("work"))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(ended.wait, 10)
    await server.lifecycle.stop()


@run
async def test_chat_lines_are_sent_in_erlmcp_only() -> None:
    for dialect, expected in (
        ("erlmcp", [{"role": "assistant", "content": {"type": "text", "text": "hi"}}]),
        ("official", []),
    ):
        server = Server("x", "1", dialect=dialect)

        @server.tool
        async def chat(ctx: Context) -> str:
            """Chat."""
            await ctx.message("assistant", "hi")
            return ""

        notes: list[bytes] = []
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "chat"}}
        await server.handle(json.dumps(message).encode(), {"revision": "2025-11-25", "notify": notes.append})
        assert [json.loads(note)["params"] for note in notes] == expected


def test_a_type_checker_refuses_a_session_that_may_not_be_there() -> None:
    found = typing.get_type_hints(Context.session.fget, {"Session": Session})["return"]
    assert set(typing.get_args(found)) == {Session, type(None)}


@run
async def test_a_level_that_there_is_not_is_said_to_the_author() -> None:
    with pytest.raises(ValueError, match="log_level is one of debug, info"):
        Server("x", log_level="loud")  # pyright: ignore[reportArgumentType]
    server, said = Server("x"), list[str]()

    @server.tool
    async def speak(ctx: Context) -> None:
        try:
            await ctx.log("loud", "words")  # pyright: ignore[reportArgumentType]
        except ValueError as error:
            said.append(str(error))

    await Peer(server).result("tools/call", name="speak", arguments={})
    assert said[0].endswith("not 'loud'")
