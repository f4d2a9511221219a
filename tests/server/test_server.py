"""A server on all five revisions, through the bytes of `Server.handle`."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from dovetail import (
    CallToolResult,
    Completion,
    Context,
    GetPromptResult,
    Limits,
    ProtocolError,
    Refusal,
    RegistrationError,
    Server,
    TextContent,
    ToolError,
)
from tests.support.aio import run
from tests.support.peer import LEGACY, MODERN, Peer
from tests.support.schemas import REVISIONS, validate

every_revision = pytest.mark.parametrize("revision", REVISIONS)
every_legacy = pytest.mark.parametrize("revision", LEGACY)


@dataclass
class Forecast:
    city: str
    degrees: float


def build(**options: Any) -> Server:
    server = Server("weather", "1.2.3", "Ask before you travel.", title="Weather", **options)

    @server.tool
    async def forecast(city: str, days: int = 3) -> Forecast:
        """What the weather will be.

        Args:
            city: Where.
        """
        return Forecast(city, 20.5 + days)

    @server.tool(
        title="Shout", annotations={"readOnlyHint": True}, version="2", deprecated="use whisper", tags=["x"]
    )
    def shout(text: str) -> str:
        """Say it loudly."""
        return text.upper()

    @server.tool
    def broken() -> str:
        """Fail."""
        raise RuntimeError("secret detail")

    @server.resource("weather://{city}/now", mime_type="application/json", title="Now")
    async def now(city: str) -> dict[str, str]:
        """The weather now."""
        return {"city": city}

    @server.resource("weather://about")
    def about() -> str:
        """About."""
        return "All about weather"

    @server.prompt
    def plan(city: str, days: int = 1) -> str:
        """Plan a trip."""
        return f"Plan {days} days in {city}"

    @server.completion(ref="plan", argument="city")
    async def cities(value: str, arguments: dict[str, Any]) -> list[str]:
        return [city for city in ("Oslo", "Osaka", "Rome") if city.startswith(value)] + list(
            arguments.values()
        )

    return server


@every_revision
@run
async def test_every_primitive_answers_on_every_revision(revision: str) -> None:
    peer = Peer(build(), revision)
    tools = await peer.result("tools/list")
    assert [tool["name"] for tool in tools["tools"]] == ["forecast", "shout", "broken"]
    assert tools["tools"][0]["inputSchema"]["properties"]["city"] == {
        "type": "string",
        "description": "Where.",
    }
    called = await peer.call("forecast", city="Oslo")
    assert json.loads(called["content"][0]["text"]) == {"city": "Oslo", "degrees": 23.5}
    if revision >= "2025-06-18":
        assert called["structuredContent"] == {"city": "Oslo", "degrees": 23.5}
    else:
        assert "structuredContent" not in called
    assert await peer.text("shout", text="ja") == "JA"
    read = await peer.result("resources/read", uri="weather://oslo/now")
    assert json.loads(read["contents"][0]["text"]) == {"city": "oslo"}
    assert read["contents"][0]["uri"] == "weather://oslo/now"
    assert (await peer.result("resources/list"))["resources"][0]["uri"] == "weather://about"
    templates = await peer.result("resources/templates/list")
    assert templates["resourceTemplates"][0]["uriTemplate"] == "weather://{city}/now"
    prompts = await peer.result("prompts/list")
    assert [a["name"] for a in prompts["prompts"][0]["arguments"]] == ["city", "days"]
    prompt = await peer.result("prompts/get", name="plan", arguments={"city": "Oslo", "days": "2"})
    assert prompt["messages"][0]["content"]["text"] == "Plan 2 days in Oslo"
    assert prompt["description"] == "Plan a trip."


@every_legacy
@run
async def test_initialize_tells_what_is_registered_and_ping_answers(revision: str) -> None:
    server = build()
    request = {
        "jsonrpc": "2.0",
        "id": "a",
        "method": "initialize",
        "params": {
            "protocolVersion": revision,
            "capabilities": {},
            "clientInfo": {"name": "hand", "version": "1"},
        },
    }
    reply = await server.handle(json.dumps(request).encode())
    assert reply is not None
    validate(reply, revision, method="initialize")
    result = json.loads(reply)["result"]
    assert result["protocolVersion"] == revision
    assert result["serverInfo"]["name"] == "weather"
    assert result["instructions"] == "Ask before you travel."
    capabilities = result["capabilities"]
    assert capabilities["tools"] == {"listChanged": True}
    assert capabilities["resources"] == {"subscribe": True, "listChanged": True}
    assert ("completions" in capabilities) is (revision > "2024-11-05")
    assert (await Peer(server, revision).result("ping")) == {}


@run
async def test_discover_lists_versions_newest_first_and_no_legacy_only_capability() -> None:
    server = build()
    server.add_capability("tasks", {"list": {}})
    server.add_capability("extensions.com.example/x", {"a": 1})
    result = await Peer(server).result("server/discover")
    assert result["supportedVersions"] == list(reversed(REVISIONS))
    assert "tasks" not in result["capabilities"]
    assert result["capabilities"]["extensions"] == {"com.example/x": {"a": 1}}
    assert (result["ttlMs"], result["cacheScope"]) == (0, "private")


@run
async def test_what_is_not_registered_is_not_offered() -> None:
    server = Server("empty", "1")
    error = await Peer(server).error("tools/list")
    assert error["code"] == -32601
    server.add_tool(in_a_process)
    assert len((await Peer(server).result("tools/list"))["tools"]) == 1


@every_revision
@run
async def test_unknown_names_have_their_documented_codes(revision: str) -> None:
    peer = Peer(build(), revision)
    assert (await peer.error("tools/call", name="nope"))["code"] == -32602
    assert (await peer.error("prompts/get", name="nope"))["code"] == -32602
    missing = await peer.error("resources/read", uri="weather://nowhere")
    assert missing["code"] == (-32602 if revision == MODERN else -32002)
    assert missing["data"]["uri"] == "weather://nowhere"


@every_revision
@run
async def test_bad_arguments_reach_the_model_as_the_revision_wants(revision: str) -> None:
    peer = Peer(build(), revision)
    reply = await peer.ask("tools/call", name="forecast", arguments={"city": 5, "dayz": 1})
    if revision <= "2025-06-18":
        assert reply["error"]["code"] == -32602
        text = reply["error"]["message"]
    else:
        assert reply["result"]["isError"] is True
        text = reply["result"]["content"][0]["text"]
    assert "city" in text
    assert "days" in text  # the nearest name for dayz
    prompt = await peer.error("prompts/get", name="plan", arguments={})
    assert prompt["code"] == -32602
    assert prompt["data"]["missing"] == ["city"]


@every_revision
@pytest.mark.parametrize("arguments", [[1], "x", 5, True])
@run
async def test_arguments_that_are_no_object_make_a_malformed_request_on_every_revision(
    revision: str, arguments: Any
) -> None:
    server = build()
    server.add_tool(name="raw", input_schema={"type": "object"}, handler=lambda given: str(given))
    peer = Peer(server, revision)
    for name in ("forecast", "raw"):
        error = await peer.error("tools/call", name=name, arguments=arguments)
        assert (error["code"], error["data"]["kind"]) == (-32602, "invalid_params")


@every_revision
@run
async def test_an_unexpected_exception_is_masked_and_logged_in_full(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "dovetail.server"):
        result = await Peer(build(), revision).call("broken")
    assert result["isError"] is True
    text = result["content"][0]["text"]
    assert "secret" not in json.dumps(result)
    incident = text.partition("incident ")[2].rstrip(")")
    assert len(incident) == 12
    record = next(record for record in caplog.records if incident in record.getMessage())
    assert record.exc_info is not None
    assert "secret detail" in str(record.exc_info[1])


@run
async def test_masking_can_be_switched_off_for_development() -> None:
    assert await Peer(build(mask_errors=False)).text("broken") == "RuntimeError: secret detail"


@every_revision
@run
async def test_failures_of_prompts_and_resources_are_masked_internal_errors(revision: str) -> None:
    server = Server("x", "1")

    @server.prompt
    def bad() -> str:
        raise KeyError("secret")

    @server.resource("x://bad")
    def unreadable() -> str:
        raise KeyError("secret")

    peer = Peer(server, revision)
    for error in (
        await peer.error("prompts/get", name="bad"),
        await peer.error("resources/read", uri="x://bad"),
    ):
        assert error["code"] == -32603
        assert len(error["data"]["incident"]) == 12
        assert "secret" not in json.dumps(error)


@every_revision
@run
async def test_a_tool_says_how_it_failed(revision: str) -> None:
    server = Server("x", "1")

    @server.tool
    def no() -> str:
        raise ToolError("No seats left", data={"left": 0})

    @server.tool
    def blocks() -> str:
        raise ToolError("see", content=[TextContent("one"), "two"])

    @server.tool
    def refuse() -> str:
        raise Refusal(1005, "ask your admin", 2.5)

    @server.tool
    def refuse_softly() -> str:
        raise Refusal(1001, "rephrase", as_result=True)

    @server.tool
    def protocol() -> str:
        raise ProtocolError("invalid_params", "wrong town")

    peer = Peer(server, revision)
    failed = await peer.call("no")
    assert (failed["isError"], failed["content"][0]["text"]) == (True, "No seats left")
    assert [block["text"] for block in (await peer.call("blocks"))["content"]] == ["one", "two"]
    refusal = await peer.error("tools/call", name="refuse")
    assert refusal["code"] == 1005
    assert refusal["data"]["hint"] == "ask your admin"
    assert refusal["data"]["retryAfterMs"] == 2500
    soft = await peer.call("refuse_softly")
    assert soft["isError"] is True
    assert soft["_meta"]["dovetail/hint"] == "rephrase"
    assert (await peer.error("tools/call", name="protocol"))["message"] == "wrong town"


@run
async def test_even_sys_exit_and_a_stray_cancellation_are_only_failures() -> None:
    server = Server("x", "1")

    @server.tool
    async def leave() -> str:
        raise SystemExit(3)

    @server.tool
    def leave_thread() -> str:
        raise SystemExit(3)

    @server.tool
    async def stray() -> str:
        raise asyncio.CancelledError

    @server.tool
    async def group() -> str:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.sleep(0))
            raise ValueError("secret")

    peer = Peer(server)
    for name in ("leave", "leave_thread", "stray", "group"):
        assert (await peer.call(name))["isError"] is True
    await server.stop()


@run
async def test_cancelling_the_caller_cancels_the_handler_and_is_not_answered() -> None:
    server = Server("x", "1")
    entered, left = asyncio.Event(), asyncio.Event()

    @server.tool
    async def sleep() -> str:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()
        return ""

    task = asyncio.create_task(Peer(server).call("sleep"))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left.is_set()


@run
async def test_a_timeout_says_which_limit_fired() -> None:
    server = Server("x", "1", timeout=0.01)

    @server.tool
    async def slow() -> str:
        await asyncio.Event().wait()
        return ""

    @server.tool(timeout=None)
    async def own() -> str:
        raise TimeoutError("mine")

    @server.prompt
    async def slow_prompt() -> str:
        await asyncio.Event().wait()
        return ""

    result = await Peer(server).call("slow")
    assert result["isError"] is True
    assert result["content"][0]["text"] == "tool 'slow' did not finish within its timeout of 0.01 s"
    assert result["_meta"]["dovetail/kind"] == "tool_timeout"
    assert "timeout" not in await Peer(server).text("own")
    error = await Peer(server).error("prompts/get", name="slow_prompt")
    assert error["message"] == "prompt 'slow_prompt' did not finish within its timeout of 0.01 s"


@every_revision
@run
async def test_one_call_more_than_the_limit_is_refused_and_the_others_finish(revision: str) -> None:
    server = Server("x", "1")
    gate = asyncio.Event()

    @server.tool(limit=2)
    async def wait() -> str:
        await gate.wait()
        return "done"

    running = [asyncio.create_task(Peer(server, revision).text("wait")) for _ in range(2)]
    await asyncio.sleep(0)
    error = await Peer(server, revision).error("tools/call", name="wait")
    assert error["code"] == 1004
    assert error["data"]["kind"] == "too_many_tools"
    gate.set()
    assert await asyncio.gather(*running) == ["done", "done"]
    assert await Peer(server, revision).text("wait") == "done"


@run
async def test_plain_functions_run_in_threads_and_do_not_block_each_other() -> None:
    import threading

    server = Server("x", "1")
    both = threading.Barrier(2, timeout=10)

    @server.tool
    def meet() -> bool:
        both.wait()
        return threading.current_thread() is threading.main_thread()

    @server.tool(run="inline")
    def inline() -> bool:
        return threading.current_thread() is threading.main_thread()

    peer = Peer(server)
    assert await asyncio.gather(peer.text("meet"), peer.text("meet")) == ["false", "false"]
    assert await peer.text("inline") == "true"
    await server.stop()


def in_a_process(text: str) -> str:
    """Used by name from another process."""
    import os

    return f"{text} {os.getpid()}"


@run
async def test_a_tool_can_run_in_a_process_of_its_own() -> None:
    import os

    server = Server("x", "1")
    server.add_tool(in_a_process, run="process")
    text = await Peer(server).text("in_a_process", text="hello")
    assert text.startswith("hello ")
    assert text != f"hello {os.getpid()}"
    await server.stop()


def test_what_cannot_run_in_a_process_is_refused_at_registration() -> None:
    server = Server("x", "1")

    async def asks(ctx: Context) -> str:
        return ctx.revision

    with pytest.raises(RegistrationError, match="Context"):
        server.add_tool(asks, run="process")
    with pytest.raises(RegistrationError, match="top level"):
        server.add_tool(lambda: "", name="x", run="process")
    assert not server.tools


@run
async def test_completions_serve_prompts_templates_and_tools() -> None:
    server = build()

    @server.completion(ref="weather://{city}/now", argument="city")
    def for_template(value: str) -> Completion:
        return Completion([value + "!"], total=1)

    @server.completion(ref="forecast", argument="city")
    def many(value: str) -> list[str]:
        return [f"{value}{n}" for n in range(150)]

    peer = Peer(server)
    ref = {"type": "ref/prompt", "name": "plan"}
    result = await peer.result("completion/complete", ref=ref, argument={"name": "city", "value": "Os"})
    assert result["completion"] == {"values": ["Oslo", "Osaka"], "total": 2}
    with_context = await peer.result(
        "completion/complete",
        ref=ref,
        argument={"name": "city", "value": "Ro"},
        context={"arguments": {"days": "2"}},
    )
    assert with_context["completion"]["values"] == ["Rome", "2"]
    nothing = await peer.result("completion/complete", ref=ref, argument={"name": "days", "value": ""})
    assert nothing["completion"]["values"] == []
    template = {"type": "ref/resource", "uri": "weather://{city}/now"}
    result = await peer.result("completion/complete", ref=template, argument={"name": "city", "value": "O"})
    assert result["completion"]["values"] == ["O!"]
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "completion/complete",
        "params": {
            "_meta": peer.meta,
            "ref": {"type": "ref/tool", "name": "forecast"},
            "argument": {"name": "city", "value": "x"},
        },
    }
    reply = await server.handle(json.dumps(message).encode())
    assert reply is not None
    completion = json.loads(reply)["result"]["completion"]
    assert (len(completion["values"]), completion["total"], completion["hasMore"]) == (100, 150, True)
    unknown = await peer.error(
        "completion/complete", ref={"type": "ref/prompt", "name": "no"}, argument={"name": "a", "value": ""}
    )
    assert unknown["code"] == -32602
    await server.stop()


@run
async def test_the_lifespan_runs_once_and_its_value_reaches_handlers() -> None:
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncGenerator[dict[str, str]]:
        events.append("start")
        yield {"db": server.info.name}
        events.append("stop")

    server = Server("x", "1", lifespan=lifespan)

    @server.tool
    async def name(ctx: Context) -> str:
        return ctx.lifespan["db"]

    peer = Peer(server)
    assert await asyncio.gather(*(peer.text("name") for _ in range(5))) == ["x"] * 5
    assert events == ["start"]
    await server.stop()
    await server.stop()
    assert events == ["start", "stop"]
    async with server.running():
        assert await peer.text("name") == "x"
    assert events == ["start", "stop", "start", "stop"]


@run
async def test_a_lifespan_that_fails_is_reported_to_whoever_starts_it_and_may_be_tried_again() -> None:
    fail = True

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncGenerator[None]:
        if fail:
            raise OSError("no database")
        yield None

    server = build(lifespan=lifespan)
    with pytest.raises(OSError, match="no database"):
        await server.start()
    fail = False
    await server.start()
    await server.stop()


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff", -32700),
        (b"[]", -32600),
        (b"1", -32600),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{}}}', -32602),
        (b"[" * 100_000, -32600),
        (b'{"a":' * 100_000, -32700),
    ],
)
@run
async def test_handle_answers_whatever_bytes_it_is_given(message: bytes, code: int) -> None:
    reply = await build().handle(message)
    assert reply is not None
    assert json.loads(reply)["error"]["code"] == code


@run
async def test_an_oversized_message_is_refused_before_it_is_read() -> None:
    reply = await build(limits=Limits(message_size=100)).handle(b" " * 101)
    assert reply is not None
    assert json.loads(reply)["error"]["data"]["maxSize"] == 100


@run
async def test_notifications_get_no_answer() -> None:
    server = build()
    assert await server.handle(b'{"jsonrpc":"2.0","method":"notifications/initialized"}') is None
    assert await server.handle(b'{"jsonrpc":"2.0","method":"notifications/whatever"}') is None


@run
async def test_a_batch_is_answered_as_a_batch_where_the_revision_has_them() -> None:
    server = build()
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "shout", "arguments": {"text": "a"}},
    }
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    batch = json.dumps([call, {**call, "id": 2, "method": "nope"}, note, 7]).encode()
    reply = await server.handle(batch, {"revision": "2025-03-26"})
    assert reply is not None
    answers = json.loads(reply)
    assert [answer.get("id") for answer in answers] == [1, 2, None]
    assert answers[0]["result"]["content"][0]["text"] == "A"
    assert answers[1]["error"]["code"] == -32601
    assert answers[2]["error"]["code"] == -32600
    only_notes = json.dumps([note]).encode()
    assert await server.handle(only_notes, {"revision": "2025-03-26"}) is None
    refused = await server.handle(batch, {"revision": "2025-06-18"})
    assert refused is not None
    assert json.loads(refused)["error"]["code"] == -32600
    await server.stop()


@run
async def test_scope_reaches_the_handler_and_names_the_principal() -> None:
    server = Server("x", "1")

    @server.tool
    async def who(ctx: Context) -> str:
        return f"{ctx.principal} {ctx.scope['shard']} {ctx.revision} {ctx.client_info}"

    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "who"}}
    reply = await server.handle(
        json.dumps(message).encode(), {"revision": "2025-06-18", "principal": "ann", "shard": 7}
    )
    assert reply is not None
    assert json.loads(reply)["result"]["content"][0]["text"] == "ann 7 2025-06-18 None"


@run
async def test_extensions_add_methods_and_layers_wrap_everything() -> None:
    seen: list[str] = []

    def layer(inner: Any) -> Any:
        async def wrapped(call: Any, channel: Any) -> Any:
            seen.append(call.method)
            return await inner(call, channel)

        return wrapped

    server = build(layers=[layer])
    original = server.methods["tools/call"]

    async def counted(call: Any, channel: Any) -> Any:
        seen.append("counted")
        return await original(call, channel)

    server.add_method("tools/call", counted)
    assert await Peer(server).text("shout", text="a") == "A"
    assert seen == ["tools/call", "counted"]
    await server.stop()


@run
async def test_a_handler_may_return_whole_results() -> None:
    server = Server("x", "1")

    @server.tool
    async def whole() -> CallToolResult:
        return CallToolResult([TextContent("a")], is_error=True, meta={"com.example/k": 1})

    @server.prompt
    async def whole_prompt() -> GetPromptResult:
        return GetPromptResult([], description="other")

    peer = Peer(server)
    result = await peer.call("whole")
    assert (result["isError"], result["_meta"]["com.example/k"]) == (True, 1)
    assert (await peer.result("prompts/get", name="whole_prompt"))["description"] == "other"


@run
async def test_erlmcp_answers_a_failed_tool_with_its_own_code() -> None:
    server = build(dialect="erlmcp")
    peer = Peer(server, "2025-11-25")
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "broken"}}
    reply = await server.handle(json.dumps(message).encode(), {"revision": "2025-11-25"})
    assert reply is not None
    error = json.loads(reply)["error"]
    assert error["code"] == -32031
    assert error["data"]["tool"] == "broken"
    assert "secret" not in json.dumps(error)
    assert (await peer.error("tools/call", name="nope"))["code"] == -32002
    await server.stop()


@run
async def test_minimcp_forces_invalid_params_for_bad_arguments_and_its_capability_flags() -> None:
    server = build(dialect="minimcp")
    peer = Peer(server, "2025-11-25")
    assert (await peer.error("tools/call", name="forecast", arguments={}))["code"] == -32602
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "hand", "version": "1"},
        },
    }
    reply = await server.handle(json.dumps(request).encode())
    assert reply is not None
    capabilities = json.loads(reply)["result"]["capabilities"]
    assert capabilities["prompts"] == {"listChanged": False}
    assert capabilities["resources"] == {"subscribe": False, "listChanged": False}
    assert capabilities["tools"] == {"listChanged": True}
    await server.stop()


@run
async def test_only_the_revisions_asked_for_are_served() -> None:
    server = build(revisions=["2026-07-28"])
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "h", "version": "1"},
        },
    }
    reply = await server.handle(json.dumps(request).encode())
    assert reply is not None
    error = json.loads(reply)["error"]
    assert error["data"]["supported"] == ["2026-07-28"]
    assert "2026-07-28" in error["message"]


def test_decorated_functions_stay_ordinary_callables() -> None:
    server = Server("x", "1")

    @server.tool(title="T")
    def double(n: int) -> int:
        return n * 2

    assert double(4) == 8
    assert server.tools["double"].definition.title == "T"
    assert msgspec.to_builtins(server.tools["double"].definition)["name"] == "double"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dialect": "klingon"}, "no dialect 'klingon': use one of official, erlmcp"),
        ({"revisions": ["1999-12-31"]}, "no revision '1999-12-31': use some of 2024-11-05"),
        ({"revisions": []}, "needs a revision"),
        ({"seal_keys": "short"}, "at least 16 bytes"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_with_what_can(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Server("x", **options)
