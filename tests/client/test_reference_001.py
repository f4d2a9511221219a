"""The rules of the Elixir client's protocol document, one test each, on its own profile.

The profile is ``dialect="mcp_client"``: 2024-11-05 and nothing else, its seven codes, its timers.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dovetail import Client, Context, Server, ToolError
from dovetail.core.channel import Rejection, Session
from dovetail.errors import (
    CapabilityError,
    DovetailError,
    LocalProtocolError,
    ProtocolError,
    RequestTimeout,
    SessionLost,
    StateError,
)
from dovetail.model import ClientCapabilities
from dovetail.testing import FakeClock
from dovetail.wire.frames import decode

from ..support.aio import run
from ..support.schemas import validate
from ..support.waiting import HANG
from .scripted import Answer, Peer, Scripted, legacy, text


@asynccontextmanager
async def strict(answer: Answer | Scripted, **options: Any) -> AsyncIterator[tuple[Client, Scripted]]:
    target = answer if isinstance(answer, Scripted) else legacy(answer)
    async with Client(target, dialect="mcp_client", **options) as client:
        yield client, target


def nothing(peer: Peer, message: dict[str, Any]) -> None:
    """Answers nothing."""


def answering(value: Any) -> Answer:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if "id" in message and "method" in message:
            peer.result(message, value)

    return answer


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


# --- JSON-RPC foundation ---------------------------------------------------------------------------------------------


@run
async def test_requests_are_json_rpc_2_with_a_unique_id() -> None:
    async with strict(answering({"tools": []})) as (client, target):
        await client.list_tools()
        await client.list_tools()
        requests = [message for message in target.peer.heard if "id" in message]
        assert all(message["jsonrpc"] == "2.0" for message in requests)
        assert len({message["id"] for message in requests}) == len(requests)
        for message in target.peer.heard:
            validate(message, "2024-11-05")


@run
async def test_initialize_has_id_1_and_ids_are_monotonic_integers() -> None:
    async with strict(answering({"tools": []})) as (client, target):
        for _ in range(3):
            await client.list_tools()
        assert [message["id"] for message in target.peer.heard if "id" in message] == [1, 2, 3, 4]


@run
async def test_answers_are_matched_by_id_in_any_order() -> None:
    asked: list[dict[str, Any]] = []

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        asked.append(message)
        if len(asked) == 3:
            for each in reversed(asked):
                peer.result(each, text(each["params"]["name"]))

    async with strict(answer) as (client, _):
        results = await asyncio.gather(*(client.call_tool(name) for name in ("a", "b", "c")))
        assert [result.text for result in results] == ["a", "b", "c"]


@run
async def test_notifications_have_no_id_and_expect_no_answer() -> None:
    async with strict(nothing, on_roots=["file:///a"]) as (client, target):
        await client.notify_roots_changed()
        notice = target.peer.heard[-1]
        assert notice["method"] == "notifications/roots/list_changed"
        assert "id" not in notice
        assert client.pending == 0


# --- error codes -----------------------------------------------------------------------------------------------------

CODES = {
    -32700: "parse_error",
    -32600: "invalid_request",
    -32601: "method_not_found",
    -32602: "invalid_params",
    -32603: "internal_error",
    -32001: "resource_not_found",
    -32002: "resource_not_readable",
    -32003: "tool_not_found",
    -32004: "tool_execution_failed",
    -32005: "prompt_not_found",
    -32006: "sampling_not_supported",
    -32007: "capability_not_supported",
    -31999: "unknown_error",
    -32050: "unknown_error",
}


@pytest.mark.parametrize(("code", "kind"), CODES.items())
@run
async def test_each_code_has_its_kind(code: int, kind: str) -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        peer.error(message, code, "it failed", {"detail": 1})

    async with strict(answer) as (client, _):
        with pytest.raises(ProtocolError) as caught:
            await client.call_tool("x")
        error = caught.value
        assert (error.kind, error.code, error.message) == (kind, code, "it failed")
        assert error.data["detail"] == 1


@run
async def test_the_seven_codes_mean_nothing_on_the_official_profile() -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        peer.error(message, -32003)

    async with Client(legacy(answer), revision="2024-11-05") as client:
        with pytest.raises(ProtocolError) as caught:
            await client.call_tool("x")
        assert caught.value.kind == "unknown_error"


@run
async def test_an_error_with_a_null_id_is_accepted_counted_and_dropped() -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        peer.say({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}})
        peer.result(message, {"tools": []})

    async with strict(answer) as (client, _):
        assert await client.list_tools() == []
        assert sum(client.violations.values()) == 1


# --- params ---------------------------------------------------------------------------------------------------------

LEGACY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


@run
async def test_the_params_of_an_extension_method_may_be_an_array() -> None:
    async with strict(answering({"sum": 6})) as (client, target):
        assert await client.request("acme/sum", [1, 2, 3]) == {"sum": 6}
        assert target.peer.heard[-1] == {
            "jsonrpc": "2.0", "id": 2, "method": "acme/sum", "params": [1, 2, 3],
        }  # fmt: skip


@pytest.mark.parametrize("revision", LEGACY)
@pytest.mark.parametrize("dialect", ["official", "erlmcp", "minimcp"])
@run
async def test_array_params_reach_the_handler_and_the_listener(revision: str, dialect: str) -> None:
    server = Server("adder", "1", dialect=dialect)
    heard: list[Any] = []

    @server.method("acme/sum")
    async def add(params: list[int], ctx: Context) -> dict[str, int]:
        await ctx.notify("acme/summed", [len(params), "numbers"])
        return {"sum": sum(params)}

    async with Client(server, revision=revision) as client:
        client.add_notification("acme/summed", heard.append)
        assert await client.request("acme/sum", [1, 2, 3]) == {"sum": 6}
        assert heard == [[3, "numbers"]]
        with pytest.raises(ProtocolError) as caught:
            await client.request("acme/sum", ["one"])
        assert caught.value.code == -32602


@pytest.mark.parametrize("method", ["tools/call", "tools/list", "ping"])
@run
async def test_array_params_of_a_method_of_the_protocol_are_refused(method: str) -> None:
    server = Server("adder", "1")
    server.add_tool(name="t", input_schema={"type": "object"}, handler=lambda given: "")
    async with Client(server, revision="2024-11-05") as client:
        with pytest.raises(LocalProtocolError, match=method):
            await client.request(method, [1])
    session = open_session(server)
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": [1]}
    refused = server.dispatcher.admission.admit(decode(json.dumps(message).encode()), session)
    assert isinstance(refused, Rejection)
    assert json.loads(refused.body)["error"]["code"] == -32602


def open_session(server: Server) -> Session:
    codec = server.dispatcher.admission.codecs["2024-11-05"]
    return Session(revision=codec.revision, codec=codec, capabilities=ClientCapabilities({}), phase="ready")


@run
async def test_array_params_are_not_sent_to_a_server_of_2026_07_28() -> None:
    server = Server("adder", "1")

    @server.method("acme/sum")
    def add(params: list[int]) -> dict[str, int]:
        return {"sum": sum(params)}

    async with Client(server, revision="2026-07-28") as client:
        with pytest.raises(LocalProtocolError, match="2026-07-28 has no array params"):
            await client.request("acme/sum", [1])


# --- lifecycle -------------------------------------------------------------------------------------------------------


@run
async def test_the_handshake_is_initialize_then_initialized_without_params() -> None:
    async with strict(nothing) as (_, target):
        assert target.peer.methods == ["initialize", "notifications/initialized"]
        params = target.peer.heard[0]["params"]
        assert params["protocolVersion"] == "2024-11-05"
        assert set(params["clientInfo"]) == {"name", "version"}
        assert not target.peer.heard[1].get("params")


@run
async def test_messages_hold_no_more_than_the_document_prints() -> None:
    async with strict(answering({"tools": []})) as (client, target):
        await client.list_tools()
        await client.ping()
        initialize, _, listed, ping = target.peer.heard
        assert set(initialize["params"]) == {"protocolVersion", "capabilities", "clientInfo"}
        assert listed == {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
        assert ping == {"jsonrpc": "2.0", "id": 3, "method": "ping", "params": {}}


@pytest.mark.parametrize("version", ["2024-10-07", "2025-03-26", "2024-11", "", "2026-07-28"])
@run
async def test_any_other_version_is_a_protocol_error_and_leads_to_backoff(version: str) -> None:
    target = legacy(nothing, version)
    client = Client(target, dialect="mcp_client", clock=FakeClock())
    with pytest.raises(ProtocolError, match="revision"):
        await client.open()
    assert client.state == "backoff"
    assert "notifications/initialized" not in target.peer.methods
    await client.close()


@run
async def test_initialize_is_answered_within_ten_seconds_or_not_at_all() -> None:
    # The timers are real here, so the test checks the profile's number and uses a smaller one.
    from dovetail.wire.dialects import MCP_CLIENT

    assert MCP_CLIENT.timeouts is not None
    assert MCP_CLIENT.timeouts.connect == 10.0
    assert MCP_CLIENT.timeouts.total == 30.0


@run
async def test_the_default_capabilities_are_roots_with_list_changed() -> None:
    async with strict(nothing) as (_, target):
        assert target.peer.heard[0]["params"]["capabilities"] == {"roots": {"listChanged": True}}


@run
async def test_server_capabilities_are_a_map_and_none_is_required() -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if message.get("method") == "initialize":
            server = {"name": "s", "version": "1"}
            peer.result(message, {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": server})

    async with strict(Scripted(answer)) as (client, _):
        assert client.server_capabilities == {}


@run
async def test_capabilities_that_are_no_map_are_refused() -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if message.get("method") == "initialize":
            server = {"name": "s", "version": "1"}
            peer.result(message, {"protocolVersion": "2024-11-05", "capabilities": [], "serverInfo": server})

    with pytest.raises(ProtocolError):
        async with strict(Scripted(answer)):
            pass


@run
async def test_shutdown_stops_new_requests_waits_for_those_in_flight_and_sends_nothing() -> None:
    async with strict(nothing) as (client, target):
        call = asyncio.create_task(client.call_tool("x"))
        await settle()
        closing = asyncio.create_task(client.close(drain=5))
        await settle()
        assert client.state == "draining"
        with pytest.raises(StateError):
            await client.call_tool("y")
        target.peer.result(target.peer.heard[-1], text("late but in time"))
        assert (await call).text == "late but in time"
        await closing
        assert "shutdown" not in target.peer.methods


@run
async def test_a_server_that_closes_leads_to_backoff_and_reconnect() -> None:
    clock = FakeClock()
    async with strict(nothing, clock=clock) as (client, target):
        call = asyncio.create_task(client.call_tool("x"))
        await settle()
        target.peer.drop()
        with pytest.raises(SessionLost) as caught:
            await call
        assert caught.value.cause == "eof"
        await settle()
        assert client.state == "backoff"
        await clock.run(1.5)
        assert client.state == "ready"
        assert len(target.peers) == 2


# --- capabilities ----------------------------------------------------------------------------------------------------

GATED = {
    "tools": lambda client: client.call_tool("x"),
    "resources": lambda client: client.read_resource("file:///x"),
    "resources.subscribe": lambda client: client.subscribe_resource("file:///x"),
    "prompts": lambda client: client.get_prompt("x"),
    "logging": lambda client: client.set_logging_level("info"),
}


@pytest.mark.parametrize("capability", GATED)
@run
async def test_what_the_server_lacks_fails_at_once_and_is_not_sent(capability: str) -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if message.get("method") == "initialize":
            server = {"name": "s", "version": "1"}
            offered: dict[str, Any] = {"resources": {}} if capability == "resources.subscribe" else {}
            peer.result(
                message, {"protocolVersion": "2024-11-05", "capabilities": offered, "serverInfo": server}
            )

    async with strict(Scripted(answer)) as (client, target):
        before = len(target.peer.heard)
        with pytest.raises(CapabilityError) as caught:
            await GATED[capability](client)
        assert caught.value.kind == "capability_not_supported"
        assert len(target.peer.heard) == before


@run
async def test_completion_is_not_gated() -> None:
    async with strict(answering({"completion": {"values": ["a"]}})) as (client, _):
        assert (await client.complete("p", "x", "")).completion.values == ["a"]


# --- methods ---------------------------------------------------------------------------------------------------------


@run
async def test_tools_are_listed_and_called() -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if message["method"] == "tools/list":
            tool = {"name": "search_files", "description": "Search", "inputSchema": {"type": "object"}}
            peer.result(message, {"tools": [tool]})
        else:
            assert message["params"] == {"name": "search_files", "arguments": {"pattern": "*.ex"}}
            peer.result(message, text("Found 42 files", isError=False))

    async with strict(answer) as (client, _):
        (tool,) = await client.list_tools()
        assert (tool.name, tool.description) == ("search_files", "Search")
        assert (await client.call_tool("search_files", {"pattern": "*.ex"})).text == "Found 42 files"


@run
async def test_a_tool_error_is_a_result_with_is_error() -> None:
    async with strict(answering(text("Path /src does not exist", isError=True))) as (client, _):
        result = await client.call_tool("x", check=False)
        assert result.is_error
        with pytest.raises(ToolError, match="does not exist"):
            await client.call_tool("x")


@run
async def test_resources_are_listed_read_and_subscribed_to() -> None:
    updated: list[str] = []

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        match message["method"]:
            case "resources/list":
                peer.result(message, {"resources": [{"uri": "file:///a", "name": "a"}]})
            case "resources/templates/list":
                peer.result(message, {"resourceTemplates": [{"uriTemplate": "file:///{x}", "name": "t"}]})
            case "resources/read":
                contents = [{"uri": "file:///a", "mimeType": "text/plain", "text": "hi"}]
                peer.result(message, {"contents": contents})
            case _:
                peer.result(message, {})

    async with strict(answer, on_resource_updated=updated.append) as (client, target):
        assert [resource.uri for resource in await client.list_resources()] == ["file:///a"]
        assert [t.uri_template for t in await client.list_resource_templates()] == ["file:///{x}"]
        assert (await client.read_resource("file:///a")).contents[0].text == "hi"
        await client.subscribe_resource("file:///a")
        notice = {
            "jsonrpc": "2.0",
            "method": "notifications/resources/updated",
            "params": {"uri": "file:///a"},
        }
        target.peer.say(notice)
        await settle()
        assert updated == ["file:///a"]
        await client.unsubscribe_resource("file:///a")
        assert target.peer.methods[-2:] == ["resources/subscribe", "resources/unsubscribe"]


@run
async def test_prompts_are_listed_and_filled_in() -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if message["method"] == "prompts/list":
            peer.result(message, {"prompts": [{"name": "p", "arguments": [{"name": "t", "required": True}]}]})
        else:
            assert message["params"]["arguments"] == {"t": "long text"}
            block = {"type": "text", "text": "Please summarize"}
            peer.result(message, {"messages": [{"role": "user", "content": block}]})

    async with strict(answer) as (client, _):
        (prompt,) = await client.list_prompts()
        assert prompt.name == "p"
        assert (await client.get_prompt("p", {"t": "long text"})).messages[0].role == "user"


@run
async def test_the_log_level_is_set_and_messages_reach_the_callback() -> None:
    logged: list[Any] = []
    async with strict(answering({}), on_log=logged.append) as (client, target):
        await client.set_logging_level("info")
        assert target.peer.heard[-1]["params"]["level"] == "info"
        params = {"level": "info", "logger": "server.database", "data": "Connected"}
        target.peer.say({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
        await settle()
        assert (logged[0].level, logged[0].logger, logged[0].data) == ("info", "server.database", "Connected")


@run
async def test_roots_are_shown_to_the_server() -> None:
    async with strict(nothing, on_roots=[{"uri": "file:///a", "name": "a"}]) as (_, target):
        target.peer.say({"jsonrpc": "2.0", "id": 7, "method": "roots/list"})
        await settle()
        assert target.peer.heard[-1] == {
            "jsonrpc": "2.0",
            "id": 7,
            "result": {"roots": [{"uri": "file:///a", "name": "a"}]},
        }


@run
async def test_sampling_may_go_from_the_client_to_the_server_on_this_profile_only() -> None:
    request = {"messages": [{"role": "user", "content": {"type": "text", "text": "Hello!"}}], "maxTokens": 10}
    answer = {
        "role": "assistant",
        "content": {"type": "text", "text": "Hi"},
        "model": "m",
        "stopReason": "endTurn",
    }
    async with strict(answering(answer)) as (client, _):
        assert (await client.create_message(request)).model == "m"
    async with Client(legacy(nothing), revision="2024-11-05") as official:
        with pytest.raises(LocalProtocolError):
            await official.create_message(request)


@run
async def test_the_server_may_sample_from_the_client() -> None:
    async with strict(nothing, on_sample=lambda request: f"echo {request.messages[0].content.text}") as (
        _,
        target,
    ):
        params = {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}], "maxTokens": 5}
        target.peer.say({"jsonrpc": "2.0", "id": "s1", "method": "sampling/createMessage", "params": params})
        await settle()
        assert target.peer.heard[-1]["result"]["content"] == {"type": "text", "text": "echo Hi"}


# --- progress, cancellation, ping ------------------------------------------------------------------------------------


@run
async def test_progress_is_matched_by_its_token() -> None:
    seen: list[tuple[float, float | None]] = []

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        token = message["params"]["_meta"]["progressToken"]
        for progress in (0.25, 0.5, 0.5, 1.0):
            params = {"progressToken": token, "progress": progress, "total": 1.0}
            peer.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        stray = {"progressToken": "nobody", "progress": 9}
        peer.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": stray})
        peer.result(message, text("done"))

    async with strict(answer) as (client, _):
        await client.call_tool(
            "x", on_progress=lambda progress, total, message: seen.append((progress, total))
        )
    assert seen == [(0.25, 1.0), (0.5, 1.0), (1.0, 1.0)]


@run
async def test_a_cancelled_call_notifies_the_server_and_a_late_response_is_dropped() -> None:
    async with strict(nothing) as (client, target):
        call = asyncio.create_task(client.call_tool("x"))
        await settle()
        asked = target.peer.heard[-1]
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        notice = target.peer.heard[-1]
        assert notice["method"] == "notifications/cancelled"
        assert notice["params"]["requestId"] == asked["id"]
        target.peer.result(asked, text("too late"))
        await settle()
        assert client.violations == {"late_answer": 1}
        assert client.state == "ready"


@run
async def test_the_server_may_cancel_its_own_request() -> None:
    ended = asyncio.Event()

    async def thinking(request: Any) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    async with strict(nothing, on_sample=thinking) as (_, target):
        params = {"messages": [], "maxTokens": 5}
        target.peer.say({"jsonrpc": "2.0", "id": 5, "method": "sampling/createMessage", "params": params})
        await settle()
        target.peer.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}})
        await asyncio.wait_for(ended.wait(), HANG)
        await settle()
        assert target.peer.methods[-1] != "(answer)"


@run
async def test_ping_goes_both_ways() -> None:
    async with strict(answering({})) as (client, target):
        assert await client.ping() >= 0
        target.peer.say({"jsonrpc": "2.0", "id": 999, "method": "ping", "params": {}})
        await settle()
        assert target.peer.heard[-1] == {"jsonrpc": "2.0", "id": 999, "result": {}}


# --- content ---------------------------------------------------------------------------------------------------------


@run
async def test_text_image_and_flat_resource_blocks_are_understood() -> None:
    content = [
        {"type": "text", "text": "hi"},
        {"type": "image", "data": base64.b64encode(b"PNG").decode(), "mimeType": "image/png"},
        {"type": "resource", "uri": "file:///r", "mimeType": "application/json"},
    ]
    async with strict(answering({"content": content})) as (client, _):
        result = await client.call_tool("x")
        assert result.text == "hi"
        assert result.images == [b"PNG"]
        resource: Any = result.content[2]
        assert "file:///r" in (
            getattr(resource, "uri", ""),
            getattr(getattr(resource, "resource", None), "uri", ""),
        )


# --- validation ------------------------------------------------------------------------------------------------------

INVALID = {
    "no JSON": b"{nonsense",
    "not even text": b"\xff\xfe\x00",
    "no jsonrpc": b'{"id": 99, "result": {}}',
    "another jsonrpc": b'{"jsonrpc": "1.0", "id": 99, "result": {}}',
    "result and error": b'{"jsonrpc":"2.0","id":99,"result":{},"error":{"code":1,"message":"x"}}',
    "neither": b'{"jsonrpc":"2.0","id":99}',
    "unknown id": b'{"jsonrpc":"2.0","id":12345,"result":{}}',
    "a string id nobody gave": b'{"jsonrpc":"2.0","id":"2","result":{}}',
    "an array": b"[1, 2, 3]",
    "a bare number": b"42",
    "an unknown notification": b'{"jsonrpc":"2.0","method":"notifications/whatever"}',
    "a cancel of nothing": b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}',
    "a progress without a token": b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}',
}


@pytest.mark.parametrize("name", INVALID)
@run
async def test_an_invalid_message_is_counted_dropped_and_survived(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if message.get("method") == "tools/list":
            peer.say(INVALID[name])
            peer.result(message, {"tools": []})

    caplog.set_level(logging.ERROR, "dovetail.client")
    async with strict(answer) as (client, target):
        assert await client.list_tools() == []
        assert client.state == "ready"
        assert sum(client.violations.values()) == 1
        assert "(answer)" not in target.peer.methods


@pytest.mark.parametrize(
    "error", [{"message": "x"}, {"code": "1", "message": "x"}, {"code": 1}, "no", None, 5]
)
@run
async def test_an_error_without_a_code_and_message_is_dropped_and_the_correct_answer_is_used(
    error: Any,
) -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        peer.say({"jsonrpc": "2.0", "id": message["id"], "error": error})
        peer.result(message, text("correct"))

    async with strict(answer) as (client, _):
        assert (await client.call_tool("x")).text == "correct"
        assert client.pending == 0
        assert client.violations == {"malformed_answer": 1}


MALFORMED: dict[str, dict[str, Any]] = {
    "result and error": {"result": {}, "error": {"code": 1, "message": "x"}},
    "neither": {},
    "another jsonrpc": {"jsonrpc": "1.0", "result": {}},
    "no jsonrpc": {"jsonrpc": None, "result": {}},
}


@pytest.mark.parametrize("name", MALFORMED)
@run
async def test_a_malformed_answer_is_logged_counted_and_dropped_and_the_correct_one_is_used(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        peer.say({"jsonrpc": "2.0", "id": message["id"], **MALFORMED[name]})
        peer.result(message, text("correct"))

    caplog.set_level("WARNING", "dovetail.client")
    async with strict(answer) as (client, _):
        assert (await client.call_tool("x")).text == "correct"
        assert sum(client.violations.values()) == 1
    assert "dropped a message of the server" in caplog.text


@run
async def test_the_error_object_of_the_server_is_kept_as_it_came() -> None:
    sent = {"code": -32004, "message": "broken", "data": {"a": [1]}, "extra": True}

    def answer(peer: Peer, message: dict[str, Any]) -> None:
        peer.say({"jsonrpc": "2.0", "id": message["id"], "error": sent})

    async with strict(answer) as (client, _):
        with pytest.raises(DovetailError) as caught:
            await client.call_tool("x")
        error: BaseException | None = caught.value
        while error is not None and getattr(error, "raw", None) is None:
            error = error.__cause__
        assert error is not None
        assert error.raw == sent  # type: ignore[attr-defined]


@run
async def test_a_method_that_is_no_string_is_refused_and_not_sent() -> None:
    async with strict(nothing) as (client, target):
        before = len(target.peer.heard)
        with pytest.raises(LocalProtocolError, match="method"):
            await client.request(5, {})  # type: ignore[arg-type]
        assert len(target.peer.heard) == before


@run
async def test_closing_with_a_grace_period_unsubscribes_first() -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        if message.get("method") in ("resources/subscribe", "resources/unsubscribe"):
            peer.result(message, {})

    async with strict(answer) as (client, target):
        for uri in ("file:///a", "file:///b"):
            await client.subscribe_resource(uri)
        await client.close(drain=5)
        assert target.peer.methods[-2:] == ["resources/unsubscribe"] * 2


@run
async def test_a_duplicate_answer_is_dropped() -> None:
    def answer(peer: Peer, message: dict[str, Any]) -> None:
        peer.result(message, text("first"))
        peer.result(message, text("second"))

    async with strict(answer) as (client, _):
        assert (await client.call_tool("x")).text == "first"
        await settle()
        assert client.violations == {"late_answer": 1}


@run
async def test_a_result_of_the_wrong_shape_fails_its_call_alone() -> None:
    async with strict(answering({"content": "no list"})) as (client, _):
        with pytest.raises(ProtocolError, match="tools/call"):
            await client.call_tool("x")
        assert client.state == "ready"


@run
async def test_a_pending_request_times_out_and_the_connection_goes_on() -> None:
    clock = FakeClock()
    async with strict(nothing, clock=clock) as (client, target):
        call = asyncio.create_task(client.call_tool("x"))
        await settle()
        clock.advance(30)
        with pytest.raises(RequestTimeout):
            await call
        assert target.peer.methods[-1] == "notifications/cancelled"
        assert client.state == "ready"
