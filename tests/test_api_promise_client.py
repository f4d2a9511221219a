"""The public page, continued: the client, the errors, the helpers for tests."""

import asyncio
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import dovetail
import dovetail.sync
from dovetail import (
    CapabilityError,
    Client,
    Context,
    DovetailError,
    ProtocolError,
    Refusal,
    RequestTimeout,
    Server,
    SessionLost,
    TextContent,
    Timeouts,
    ToolError,
    TransportError,
)
from dovetail.testing import FakeClock, Faults, connect, record, replay

from .support.aio import run
from .support.promise import (
    REVISIONS,
    Seat,
    every_revision,
    forecaster,
)
from .support.waiting import HANG

# --- the client ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("auto", "2026-07-28"),
        ("modern", "2026-07-28"),
        ("legacy", "2025-11-25"),
        *((revision, revision) for revision in REVISIONS),
    ],
)
@run
async def test_a_client_detects_or_is_given_its_revision(policy: str, expected: str) -> None:
    async with Client(forecaster(), revision=policy) as client:
        assert client.revision == expected
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("weather", "1.0.0")
        assert client.server_info["name"] == "weather"
        assert client.server_capabilities["tools"] == {"listChanged": True}
        assert client.state == "ready"
    assert client.state == "closed"


@every_revision
@run
async def test_the_conversation_of_the_page(revision: str) -> None:
    async with Client(forecaster(), revision=revision) as client:
        assert [tool.name for tool in await client.list_tools()] == ["forecast"]
        assert [found.uri for found in await client.list_resources()] == ["weather://cities"]
        assert len(await client.list_resource_templates()) == 1
        assert [prompt.name for prompt in await client.list_prompts()] == ["plan"]
        result = await client.call_tool("forecast", {"city": "Oslo"}, timeout=10, on_progress=print)
        assert result.data == {"city": "Oslo for 3"}
        assert (result.is_error, json.loads(result.text)) == (False, result.data)
        read = await client.read_resource("weather://oslo/now")
        assert json.loads(read.contents[0].text or "") == {"city": "oslo"}
        prompt = await client.get_prompt("plan", {"city": "Oslo"})
        assert prompt.messages[0].content == TextContent("Plan a trip to Oslo")
        await client.ping()
        with pytest.raises(ToolError, match="no such city"):
            await client.call_tool("forecast", {"city": "Atlantis"})
        failed = await client.call_tool("forecast", {"city": "Atlantis"}, check=False)
        assert (failed.is_error, failed.text) == (True, "There is no such city")
        with pytest.raises(ProtocolError) as caught:
            await client.read_resource("weather://nowhere/at/all")
        assert caught.value.kind == "resource_not_found"


ANSWERS: list[tuple[Any, Any]] = [
    ({"action": "accept", "content": {"row": 4}}, 4),
    ({"row": 4}, 4),
    (Seat(4), 4),
    (dovetail.model.ElicitResult("accept", content={"row": 4}), 4),
]


@pytest.mark.parametrize(("answer", "row"), ANSWERS)
@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@run
async def test_an_answer_may_be_typed_plain_or_the_dictionary_of_the_specification(
    revision: str, asynchronous: bool, answer: Any, row: int
) -> None:
    server = Server("s")

    @server.tool
    async def ask(ctx: Context) -> int:
        seat = await ctx.elicit("Seat?", Seat)
        return seat.data.row if seat.action == "accept" else -1

    async def later(request: Any) -> Any:
        return answer

    on_elicit = later if asynchronous else lambda request: answer
    async with Client(server, revision=revision, on_elicit=on_elicit) as client:
        assert (await client.call_tool("ask")).data == row


@every_revision
@pytest.mark.parametrize(
    "answer", ["Hi", {"role": "assistant", "content": {"type": "text", "text": "Hi"}, "model": "m"}]
)
@run
async def test_a_model_may_answer_with_a_string(revision: str, answer: Any) -> None:
    server = Server("s")

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.sample("Say hi", max_tokens=5)).text

    async def on_sample(request: Any) -> Any:
        return answer

    async with Client(server, revision=revision, on_sample=on_sample) as client:
        assert (await client.call_tool("ask")).text == "Hi"


@run
async def test_a_client_may_be_opened_and_closed_from_anywhere_in_any_order_twice() -> None:
    states: list[str] = []
    client = Client(forecaster(), on_state=states.append)
    await asyncio.create_task(client.open())
    assert (await client.call_tool("forecast", {"city": "Oslo"})).data
    await asyncio.gather(asyncio.create_task(client.close()), client.close())
    await client.close()
    async with client:
        assert (await client.call_tool("forecast", {"city": "Oslo"})).data
    await client.close()
    assert [state for state in states if state in ("ready", "closed")] == ["ready", "closed"] * 2


def test_the_client_shows_the_messages_of_the_error_page() -> None:
    words = inspect.signature(Client).parameters
    connection = {"revision", "reconnect", "timeouts", "dialect", "headers", "auth", "on_state"}
    answers = {"on_elicit", "on_sample", "on_roots", "on_log", "on_list_changed", "on_resource_updated"}
    assert connection | answers <= set(words)
    for word in ("timeout", "on_progress", "headers", "check"):
        assert word in inspect.signature(Client.call_tool).parameters


def test_people_without_an_event_loop_have_the_same_client() -> None:
    server = Server("s")

    @server.tool
    async def ask(ctx: Context) -> int:
        seat = await ctx.elicit("Seat?", Seat)
        return seat.data.row if seat.action == "accept" else -1

    with dovetail.sync.Client(server, on_elicit=lambda request: {"row": 5}) as client:
        assert client.revision == "2026-07-28"
        assert [tool.name for tool in client.list_tools()] == ["ask"]
        assert client.call_tool("ask").data == 5


# --- errors --------------------------------------------------------------------------------------------------


def test_errors_form_one_tree_and_carry_what_the_page_names() -> None:
    protocol = ProtocolError("invalid_params", data={"a": 1})
    assert (protocol.code, protocol.kind, protocol.data) == (-32602, "invalid_params", {"a": 1})
    assert TransportError("gone", cause="eof").cause == "eof"
    assert [RequestTimeout("late", limit=limit).limit for limit in ("connect", "idle", "total")]
    assert SessionLost("gone", maybe_executed=False).maybe_executed is False
    refusal = Refusal(1003, "slower", 2.5)
    assert (refusal.code, refusal.hint, refusal.retry_after, refusal.kind) == (
        1003,
        "slower",
        2.5,
        "rate_limited",
    )
    assert Refusal(code=1005, hint="ask", retry_after=None).kind == "permission_denied"
    assert CapabilityError("sampling").kind == "capability_not_supported"
    for error in (protocol, TransportError("x"), RequestTimeout("x"), refusal, ToolError("x")):
        assert isinstance(error, DovetailError)
        assert error.kind


@every_revision
@run
async def test_a_refusal_reaches_the_client_as_one(revision: str) -> None:
    server = Server("s")

    @server.tool
    def never() -> str:
        raise Refusal(1003, hint="slower", retry_after=2)

    async with connect(server, revision) as client:
        with pytest.raises(Refusal) as caught:
            await client.call_tool("never")
    assert (caught.value.code, caught.value.hint, caught.value.retry_after) == (1003, "slower", 2)


@every_revision
@run
async def test_what_the_server_never_declared_is_refused_before_anything_is_sent(revision: str) -> None:
    async with record(Server("empty"), revision=revision) as client:
        before = len(client.recording.messages)
        with pytest.raises(CapabilityError):
            await client.list_tools()
        assert len(client.recording.messages) == before


@pytest.mark.parametrize("limit", ["idle", "total"])
@run
async def test_a_timeout_says_which_limit_fired(limit: str) -> None:
    server = Server("s")

    @server.tool
    async def hang() -> str:
        await asyncio.Event().wait()
        return ""

    limits = Timeouts(idle=0.05 if limit == "idle" else None, total=0.05 if limit == "total" else HANG)
    async with Client(server, timeouts=limits) as client:
        with pytest.raises(RequestTimeout) as caught:
            await client.call_tool("hang")
    assert caught.value.limit == limit


# --- testing -------------------------------------------------------------------------------------------------


@run
async def test_a_recorded_conversation_is_a_fixture(tmp_path: Path) -> None:
    path = tmp_path / "forecast.txt"
    async with record(forecaster(), path) as client:
        said = (await client.call_tool("forecast", {"city": "Oslo"})).data
    async with Client(replay(path)) as client:
        assert (await client.call_tool("forecast", {"city": "Oslo"})).data == said
        assert client.revision == "2026-07-28"


@run
async def test_time_is_under_the_tests_hand() -> None:
    clock = FakeClock()
    server = Server("s")
    hanging = asyncio.Event()

    @server.tool
    async def hang() -> str:
        hanging.set()
        await asyncio.Event().wait()
        return ""

    async with Client(server, clock=clock) as client:
        call = asyncio.create_task(client.call_tool("hang", timeout=6000))  # longer than a test may take
        await hanging.wait()
        clock.advance(6001)
        with pytest.raises(RequestTimeout):
            await call


@run
async def test_faults_stand_between_a_client_and_a_server() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"0123456789")
        await reader.read()
        writer.close()
        await writer.wait_closed()

    listener = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with listener, Faults(f"tcp://127.0.0.1:{port}", cut=4) as faults:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(faults.url.rpartition(":")[2]))
        assert await reader.read() == b"0123"
        writer.close()
        await writer.wait_closed()
