"""Calls against a real server in memory, on every revision."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from dovetail import Client, Context, Server, Timeouts, ToolError
from dovetail.errors import (
    CapabilityError,
    DovetailError,
    ProtocolError,
    RequestTimeout,
    SessionLost,
    StateError,
)
from dovetail.middleware import Middleware
from dovetail.model import ElicitResult
from dovetail.testing import connect
from tests.support.waiting import turns, until

from ..support.aio import run
from ..support.waiting import HANG
from .scripted import Peer, legacy, modern

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
FORMS = REVISIONS[2:]


def make_server() -> Server:
    server = Server("weather", version="1.0.0", instructions="Ask before you travel.")

    @server.tool(annotations={"readOnlyHint": True})
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    async def forecast(city: str) -> dict[str, Any]:
        """The weather."""
        return {"city": city, "celsius": 3.5}

    @server.tool
    async def broken() -> str:
        """Always fails."""
        raise ToolError("the kettle is empty")

    @server.tool
    async def slow(ctx: Context) -> str:
        """Never ends."""
        await asyncio.Event().wait()
        return "never"

    @server.tool
    async def counting(ctx: Context) -> str:
        """Reports progress."""
        for step in range(3):
            await ctx.report_progress(step, 3, f"step {step}")
        return "done"

    @server.tool
    async def book(ctx: Context) -> str:
        """Asks for a seat."""
        seat = await ctx.elicit(
            "Which seat?",
            {
                "type": "object",
                "properties": {"seat": {"type": "string"}, "quiet": {"type": "boolean", "default": True}},
                "required": ["seat"],
            },
        )
        return f"{seat.data['seat']} {seat.data['quiet']}" if seat.action == "accept" else seat.action

    @server.tool
    async def write(ctx: Context) -> str:
        """Asks the client's model."""
        words = await ctx.sample("Say hello", max_tokens=20)
        return words.text

    @server.tool
    async def where(ctx: Context) -> str:
        """Asks for the roots."""
        return ",".join(str(root.uri) for root in await ctx.list_roots())

    @server.resource("weather://oslo/now", mime_type="text/plain")
    async def now() -> str:
        return "snow"

    @server.prompt
    async def plan(city: str) -> str:
        """A plan."""
        return f"Plan a trip to {city}."

    @server.completion(ref="plan", argument="city")
    async def cities(value: str) -> list[str]:
        return [name for name in ("Oslo", "Odense", "Bergen") if name.startswith(value)]

    return server


every_revision = pytest.mark.parametrize("revision", REVISIONS)


@every_revision
@run
async def test_the_same_calls_give_the_same_results_on_every_revision(revision: str) -> None:
    async with connect(make_server(), revision) as client:
        assert client.revision == revision
        assert client.server_info is not None
        assert client.server_info.name == "weather"
        assert client.instructions == "Ask before you travel."
        assert {tool.name for tool in await client.list_tools()} >= {"add", "forecast"}
        assert (await client.call_tool("add", {"a": 1, "b": 2})).data == 3
        result = await client.call_tool("forecast", {"city": "Oslo"})
        assert result.data == {"city": "Oslo", "celsius": 3.5}
        assert (await client.read_resource("weather://oslo/now")).contents[0].text == "snow"
        prompt = await client.get_prompt("plan", {"city": "Oslo"})
        assert prompt.messages[0].content.text == "Plan a trip to Oslo."  # type: ignore[union-attr]
        found = await client.complete("plan", "city", "O")
        assert found.completion.values == ["Oslo", "Odense"]
        wire = {"type": "ref/prompt", "name": "plan"}, {"name": "city", "value": "B"}
        assert (await client.complete(*wire)).completion.values == ["Bergen"]
        await client.ping()


@every_revision
@run
async def test_a_failed_tool_raises_by_default(revision: str) -> None:
    async with connect(make_server(), revision) as client:
        with pytest.raises(ToolError, match="the kettle is empty"):
            await client.call_tool("broken")
        result = await client.call_tool("broken", check=False)
        assert result.is_error
        assert result.text == "the kettle is empty"


@every_revision
@run
async def test_an_unknown_tool_is_a_protocol_error_with_its_kind(revision: str) -> None:
    async with connect(make_server(), revision) as client:
        with pytest.raises(ProtocolError) as caught:
            await client.call_tool("no-such-tool")
        assert caught.value.code == -32602
        assert caught.value.kind == "tool_not_found"


@every_revision
@run
async def test_progress_reaches_the_callback_in_order(revision: str) -> None:
    seen: list[tuple[float, float | None, str | None]] = []
    async with connect(make_server(), revision) as client:
        result = await client.call_tool("counting", on_progress=lambda *report: seen.append(report))
        assert result.text == "done"
    words = [None] * 3 if revision == "2024-11-05" else ["step 0", "step 1", "step 2"]
    assert [(report[0], report[1]) for report in seen] == [(0, 3), (1, 3), (2, 3)]
    assert [report[2] for report in seen] == words


@pytest.mark.parametrize("revision", FORMS)
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"seat": "12A"}, "12A True"),
        ({"action": "accept", "content": {"seat": "1F", "quiet": False}}, "1F False"),
        (ElicitResult("decline"), "decline"),
        ("cancel", "cancel"),
        (None, "cancel"),
    ],
)
@run
async def test_one_callback_answers_forms_of_both_eras(revision: str, answer: Any, said: str) -> None:
    asked: list[str] = []

    async def on_elicit(request: Any) -> Any:
        asked.append(request.message)
        return answer

    async with connect(make_server(), revision, on_elicit=on_elicit) as client:
        assert (await client.call_tool("book")).text == said
    assert asked == ["Which seat?"]


@every_revision
@run
async def test_one_callback_samples_in_both_eras(revision: str) -> None:
    async with connect(make_server(), revision, on_sample=lambda request: "Hello!") as client:
        assert (await client.call_tool("write")).text == "Hello!"


@every_revision
@run
async def test_roots_are_a_list_or_a_callback(revision: str) -> None:
    for roots in (["file:///a", {"uri": "file:///b", "name": "b"}], lambda: ["file:///a", "file:///b"]):
        async with connect(make_server(), revision, on_roots=roots) as client:
            assert (await client.call_tool("where")).text == "file:///a,file:///b"


@every_revision
@run
async def test_the_limit_that_ran_out_is_named(revision: str) -> None:
    async with connect(make_server(), revision) as client:
        with pytest.raises(RequestTimeout) as caught:
            await client.call_tool("slow", timeout=0.05)
        assert caught.value.limit == "total"
        with pytest.raises(RequestTimeout) as caught:
            await client.call_tool("slow", timeout=Timeouts(idle=0.05, total=HANG))
        assert caught.value.limit == "idle"
        assert client.pending == 0


@run
async def test_a_limit_that_runs_out_cancels_on_the_server() -> None:
    stopped = asyncio.Event()
    server = Server("s")

    @server.tool
    async def slow() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    for revision in ("2025-11-25", "2026-07-28"):
        stopped.clear()
        async with connect(server, revision) as client:
            with pytest.raises(RequestTimeout):
                await client.call_tool("slow", timeout=0.02)
            await asyncio.wait_for(stopped.wait(), HANG)


@run
async def test_a_cancelled_caller_cancels_on_the_server() -> None:
    started, stopped = asyncio.Event(), asyncio.Event()
    server = Server("s")

    @server.tool
    async def slow() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    async with connect(server) as client:
        call = asyncio.create_task(client.call_tool("slow"))
        await started.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(stopped.wait(), HANG)
        assert client.pending == 0


@run
async def test_an_input_request_stops_the_idle_limit() -> None:
    async def thinking(request: Any) -> dict[str, Any]:
        await asyncio.sleep(0.8)
        return {"seat": "1A"}

    for revision in ("2025-11-25", "2026-07-28"):
        async with connect(make_server(), revision, on_elicit=thinking) as client:
            result = await client.call_tool("book", timeout=Timeouts(idle=0.5, total=HANG))
            assert result.text == "1A True"


@pytest.mark.bare("ResponseLimit offers resources, where it puts what is too large")
@every_revision
@run
async def test_what_the_server_does_not_offer_is_not_sent(revision: str) -> None:
    server = Server("bare")

    @server.tool
    async def only() -> str:
        return "x"

    said: list[bytes] = []
    async with Client(
        server, revision=revision, on_message=lambda sender, message: said.append(message)
    ) as client:
        said.clear()
        with pytest.raises(CapabilityError) as caught:
            await client.list_prompts()
        assert caught.value.capability == "prompts"
        assert caught.value.kind == "capability_not_supported"
        with pytest.raises(CapabilityError):
            await client.subscribe_resource("x://y")
        assert said == []


@run
async def test_closing_ends_what_is_pending_with_its_cause() -> None:
    for revision in ("2025-11-25", "2026-07-28"):
        client = Client(make_server(), revision=revision)
        await client.open()
        calls = [asyncio.create_task(client.call_tool("slow")) for _ in range(3)]
        await until(lambda client=client: client.pending == 3)
        await client.close()
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(outcome, SessionLost)
            assert outcome.cause == "closed"
        with pytest.raises(StateError):
            await client.call_tool("add", {"a": 1, "b": 2})


@run
async def test_open_and_close_in_any_task_in_any_order_twice() -> None:
    client = Client(make_server())
    await client.close()
    await asyncio.create_task(client.open())
    await asyncio.gather(client.open(), client.open())
    assert client.state == "ready"
    await asyncio.create_task(client.close())
    await client.close()
    assert client.state == "closed"
    await client.open()
    assert (await client.call_tool("add", {"a": 2, "b": 2})).data == 4
    await asyncio.gather(client.close(), client.close(), client.close())
    assert client.state == "closed"


@run
async def test_draining_lets_calls_finish() -> None:
    server = Server("s")
    begun, release = asyncio.Event(), asyncio.Event()

    @server.tool
    async def work() -> str:
        begun.set()
        await release.wait()
        return "finished"

    client = await Client(server).open()
    call = asyncio.create_task(client.call_tool("work"))
    await begun.wait()
    closing = asyncio.create_task(client.close(drain=5))
    await until(lambda: client.state == "draining")
    with pytest.raises(StateError):
        await client.call_tool("work")
    release.set()
    assert (await call).text == "finished"
    await closing


@run
async def test_a_client_that_listens_has_nothing_under_way_and_closes_at_once() -> None:
    server = make_server()
    client = await Client(server, revision="2026-07-28", on_list_changed=lambda _: None).open()
    await until(lambda: server.subscriptions.listening)
    assert client.pending == 0
    async with asyncio.timeout(HANG):
        await client.close(drain=2 * HANG)


@run
async def test_states_are_reported_in_order() -> None:
    seen: list[str] = []
    async with connect(make_server(), on_state=seen.append):
        assert seen == ["negotiating", "ready"]
    assert seen == ["negotiating", "ready", "draining", "closed"]


@run
async def test_a_thousand_clients_hold_one_task_each() -> None:
    server = make_server()
    before = len(asyncio.all_tasks())
    clients = [Client(server) for _ in range(1000)]
    await asyncio.gather(*(client.open() for client in clients))
    assert len(asyncio.all_tasks()) - before <= 1000
    results = await asyncio.gather(
        *(client.call_tool("add", {"a": 1, "b": n}) for n, client in enumerate(clients))
    )
    assert [result.data for result in results] == list(range(1, 1001))
    await asyncio.gather(*(client.close() for client in clients))
    assert len(asyncio.all_tasks()) == before


@run
async def test_a_callback_that_fails_is_the_callers_failure_in_the_modern_era() -> None:
    def on_elicit(request: Any) -> Any:
        raise LookupError("no such user")

    async with connect(make_server(), "2026-07-28", on_elicit=on_elicit) as client:
        with pytest.raises(DovetailError, match="no such user") as caught:
            await client.call_tool("book")
        assert isinstance(caught.value.__cause__, LookupError)


@run
async def test_unusable_arguments_are_refused_before_anything_is_sent() -> None:
    async with connect(make_server()) as client:
        with pytest.raises(TypeError, match="cannot be written as JSON"):
            await client.call_tool("add", {"a": object()})
        assert client.pending == 0


@run
async def test_more_calls_than_may_be_under_way_wait_their_turn() -> None:
    from dovetail.settings import Limits

    server = Server("s")
    running = [0, 0]

    @server.tool
    async def work(n: int) -> int:
        running[0] += 1
        running[1] = max(running)
        await turns()
        running[0] -= 1
        return n

    async with connect(server, limits=Limits(max_outgoing_requests=5)) as client:
        results = await asyncio.gather(*(client.call_tool("work", {"n": n}) for n in range(50)))
        assert [result.data for result in results] == list(range(50))
        assert running[1] <= 5


@run
async def test_those_who_wait_their_turn_end_with_the_connection_or_their_limit() -> None:
    from dovetail.settings import Limits

    async with connect(make_server(), limits=Limits(max_outgoing_requests=1)) as client:
        first = asyncio.create_task(client.call_tool("slow"))
        await until(lambda: client.pending == 1)
        with pytest.raises(RequestTimeout, match="no request slot"):
            await client.call_tool("add", {"a": 1, "b": 1}, timeout=0.05)
        waiting = asyncio.create_task(client.call_tool("add", {"a": 1, "b": 1}))
        await turns()
        await client.close()
        for call in (first, waiting):
            with pytest.raises((SessionLost, StateError)):
                await call


@run
async def test_every_call_takes_the_options_of_a_call_and_no_others() -> None:
    heard: list[dict[str, Any]] = []
    options: dict[str, Any] = {"on_message": lambda sender, data: heard.append(json.loads(data))}
    async with Client(make_server(), **options) as client:
        meta = {"com.example/trace": "t1"}
        calls: tuple[Callable[..., Any], ...] = (
            client.list_tools,
            client.ping,
            lambda **more: client.call_tool("add", {"a": 1, "b": 2}, **more),
            lambda **more: client.read_resource("weather://oslo/now", **more),
            lambda **more: client.get_prompt("plan", {"city": "Oslo"}, **more),
            lambda **more: client.request("tools/list", **more),
        )
        for call in calls:
            heard.clear()
            await call(meta=meta, timeout=HANG)
            assert heard[0]["params"]["_meta"]["com.example/trace"] == "t1"
            heard.clear()
            with pytest.raises(TypeError, match="timeot"):
                await call(timeot=5)
            assert not heard
    with pytest.raises(TypeError, match="timeot"):
        Client(make_server(), timeot=5)  # type: ignore[call-arg]


@pytest.mark.parametrize("middleware", [[], [Middleware()]])
@pytest.mark.parametrize("era", ["modern", "legacy"])
@run
async def test_a_raw_request_sends_all_that_it_was_given(era: str, middleware: list[Middleware]) -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if message.get("method") == "prompts/get":
            peer.result(message, {"messages": [], "resultType": "complete"})
        elif message.get("method") == "completion/complete":
            peer.result(message, {"completion": {"values": []}, "resultType": "complete"})

    make = modern if era == "modern" else legacy
    target = make(answer, prompts={}, completions={})
    given = {"name": "p", "arguments": {"a": "1"}, "com.acme/extra": [1, {"b": None}], "flag": True}
    asked = {
        "ref": {"type": "ref/prompt", "name": "p", "also": 1},
        "argument": {"name": "a", "value": "", "x": 2},
    }
    async with Client(target, middleware=middleware, revision=era) as client:
        for method, params in (("prompts/get", given), ("completion/complete", asked)):
            await client.request(method, params, meta={"k": 1})
            sent = target.peer.heard[-1]["params"]
            assert sent.pop("_meta")["k"] == 1
            assert sent == params
        with pytest.raises(TypeError, match="no option 'came'"):
            await client.request("prompts/get", {"name": "p"}, came=b"")
