"""The events of the Elixir client's protocol document, on both sides."""

import asyncio
import json
from typing import Any

import pytest

from dovetail import Client, Reconnect, Server, ToolError
from dovetail.errors import DovetailError, ProtocolError
from dovetail.telemetry.events import TelemetryEvent
from tests.client.scripted import Peer as Remote
from tests.client.scripted import Scripted, legacy
from tests.support.aio import run
from tests.support.peer import LEGACY, MODERN, Peer
from tests.support.waiting import until
from tests.support.web import Web, legacy_headers, modern, modern_headers, served
from tests.telemetry.test_metrics import shop

ALL = [*LEGACY, MODERN]


class Heard(list[TelemetryEvent]):
    def __call__(self, event: TelemetryEvent) -> None:
        self.append(event)

    def named(self, name: str) -> list[dict[str, Any]]:
        return [dict(event.data) for event in self if event.name == name]

    @property
    def moves(self) -> list[tuple[str, str]]:
        return [(data["from"], data["to"]) for data in self.named("transition")]


@pytest.mark.parametrize("revision", ALL)
@run
async def test_both_sides_tell_when_a_request_begins_and_how_it_ends(revision: str) -> None:
    server, sent, answered = shop(), Heard(), Heard()
    server.on_event(answered)
    async with served(server) as site:
        url = f"http://127.0.0.1:{site.port}/mcp"
        async with Client(url, revision=revision, on_event=sent) as client:
            await client.call_tool("look")
            with pytest.raises(ToolError):
                await client.call_tool("work", {"how": "failed"})
            with pytest.raises(DovetailError):
                await client.get_prompt("nobody's")
    for heard, side in ((sent, "client"), (answered, "server")):
        assert {event.side for event in heard} == {side}
        begun, stopped = heard.named("request.start"), heard.named("request.stop")
        assert {"method": "tools/call", "name": "look"}.items() <= begun[-3].items()
        ended = {(data["method"], data["name"]): data for data in stopped}
        assert ended["tools/call", "look"]["outcome"] == "ok"
        assert ended["tools/call", "look"]["seconds"] > 0
        assert ended["tools/call", "work"]["outcome"] == "failed"
        (failed,) = heard.named("request.exception")
        assert (failed["method"], failed["name"], failed["outcome"]) == ("prompts/get", "nobody's", "error")
        assert failed["kind"] == "prompt_not_found" or side == "client"
        assert isinstance(failed["code"], int)
    assert answered.named("request.start")[-1]["id"] is not None


@run
async def test_a_call_that_is_cancelled_is_an_exception() -> None:
    server, heard, begun = Server("slow"), Heard(), asyncio.Event()
    server.on_event(heard)

    @server.tool
    async def nap() -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    task = asyncio.ensure_future(Peer(server).send("tools/call", name="nap"))
    await begun.wait()
    task.cancel()
    await asyncio.wait({task})
    (ended,) = heard.named("request.exception")
    assert (ended["outcome"], ended["code"]) == ("cancelled", None)


@run
async def test_connection_state_events_have_from_to_and_reason_and_metrics_count_reconnects() -> None:
    heard, metrics = Heard(), Server("x").metrics

    def hear(event: TelemetryEvent) -> None:
        heard(event)
        metrics.heard(event)

    server = shop()
    async with served(server) as site:
        target = f"ws://127.0.0.1:{site.port}/mcp"
        client = Client(target, on_event=hear, reconnect=Reconnect(initial_delay=0.01, jitter=0.0))
        await client.open()
        assert heard.moves == [("starting", "negotiating"), ("negotiating", "ready")]
        assert [data["reason"] for data in heard.named("transition")] == [None, None]
        for socket in list(site.app.state.sockets):
            await socket.close()
        await until(lambda: len(heard.moves) >= 6)
        await client.close()
    back = [
        ("ready", "backoff"),
        ("backoff", "starting"),
        ("starting", "negotiating"),
        ("negotiating", "ready"),
    ]
    assert heard.moves[2:6] == back
    assert heard.moves[-1][1] == "closed"
    lost = heard.named("transition")[2]
    assert isinstance(lost["reason"], str)
    assert lost["reason"]
    assert metrics.read("dovetail_reconnects_total") == 1


@run
async def test_a_connection_that_is_never_made_fails_with_its_reason() -> None:
    heard = Heard()
    client = Client("http://127.0.0.1:1/mcp", on_event=heard, reconnect=False)
    with pytest.raises(DovetailError):
        await client.open()
    await client.close()
    failed = next(data for data in heard.named("transition") if data["to"] == "failed")
    assert failed["reason"]


@pytest.mark.parametrize("revision", LEGACY)
@run
async def test_a_session_reports_its_phases(revision: str) -> None:
    server, heard = shop(), Heard()
    server.on_event(heard)
    async with served(server) as site:
        web = Web(site)
        session, _ = await web.initialize(revision)
        assert ("negotiating", "ready") in heard.moves
        await web.ask("DELETE", legacy_headers(revision, session))
        assert heard.moves[-1] == ("ready", "closed")
    assert all(data["reason"] for data in heard.named("transition"))


@run
async def test_a_server_reports_messages_that_it_cannot_use() -> None:
    server, heard = shop(), Heard()
    server.on_event(heard)
    async with served(server) as site:
        web = Web(site)
        await web.ask("POST", modern_headers(modern("ping")), b"{rubbish")
        unknown = {"jsonrpc": "2.0", "method": "notifications/unheard_of", "params": modern("x")["params"]}
        await web.ask("POST", modern_headers(unknown), json.dumps(unknown).encode())
        session, _ = await web.initialize("2025-06-18")
        answer = b'{"jsonrpc":"2.0","id":99,"result":{}}'
        await web.ask("POST", legacy_headers("2025-06-18", session), answer)
    kinds = [data["kind"] for data in heard.named("invalid_message")]
    assert kinds == ["parse_error", "invalid_notification_type"]
    assert [data["kind"] for data in heard.named("unknown_response")] == ["unknown_answer"]


@run
async def test_a_client_reports_unexpected_responses_and_invalid_messages() -> None:
    heard = Heard()

    def answer(peer: Remote, message: dict[str, Any]) -> None:
        if message.get("method") == "ping":
            peer.say(b'{"jsonrpc":"2.0","id":4711,"result":{}}')
            peer.say(b"Listening on port 80 ...")
            peer.say(b'{"jsonrpc":"2.0","id":5,"result":{},"error":{}}')
            peer.result(message, {})

    target: Scripted = legacy(answer)
    async with Client(target, on_event=heard) as client:
        await client.ping()
    assert [data["kind"] for data in heard.named("unknown_response")] == ["unknown_answer"]
    assert "unreadable" in [data["kind"] for data in heard.named("invalid_message")]
    assert [data["method"] for data in heard.named("request.stop")] == ["ping"]


@run
async def test_a_callback_that_raises_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    server = shop()

    @server.on_event
    def broken(event: TelemetryEvent) -> None:
        raise RuntimeError("no room")

    async with Client(server, on_event=broken) as client:
        assert (await client.call_tool("look")).text == "seen"
        with pytest.raises(ProtocolError):
            await client.get_prompt("nobody's")
    assert "on_event failed" in caplog.text


@run
async def test_without_listeners_no_call_is_wrapped() -> None:
    server = shop()
    async with Client(server) as client:
        await client.call_tool("look")
    assert server.dispatcher.pipeline.enter is None
    server.on_event(Heard())
    assert server.dispatcher.pipeline.enter is not None
