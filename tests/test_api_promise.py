"""Every name and shape of the public page, used exactly as a reader of that page would type it."""

import asyncio
import inspect
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import attrs
import msgspec
import pydantic
import pytest

import dovetail
import dovetail.sync
from dovetail import (
    CapabilityError,
    Client,
    Context,
    DovetailError,
    ImageContent,
    ProtocolError,
    Reconnect,
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

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
ASKING = REVISIONS[2:]
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}

every_revision = pytest.mark.parametrize("revision", REVISIONS)


@dataclass
class Seat:
    row: int
    letter: str = "A"


@dataclass
class Booking:
    flight: str
    seat: Seat
    paid: int
    note: str


class FromDict(TypedDict):
    city: str


class FromStruct(msgspec.Struct):
    city: str


@attrs.define
class FromAttrs:
    city: str


class FromPydantic(pydantic.BaseModel):
    city: str


@dataclass
class FromDataclass:
    city: str


def travel() -> tuple[Server, list[str]]:
    """The server of the page, and the list of its payments."""
    server = Server("weather", version="1.0.0", instructions="Ask before you travel.")
    payments: list[str] = []

    async def charge(flight: str) -> int:
        payments.append(flight)
        return 120

    @server.tool(
        title="Book",
        annotations={"destructiveHint": True},
        timeout=30,
        limit=8,
        run="thread",
        task="optional",
    )
    async def book(flight: str, ctx: Context) -> Booking:
        """Book a flight."""
        seat = await ctx.elicit("Which seat?", Seat)
        if seat.action != "accept":
            raise ToolError("No seat chosen")
        paid = await ctx.step("pay", charge, flight)
        await ctx.report_progress(1, 2, "paid")
        words = await ctx.sample("Write a thank-you note", max_tokens=200)
        return Booking(flight, seat.data, paid, words.text)

    return server, payments


def forecaster() -> Server:
    server = Server("weather", version="1.0.0", instructions="Ask before you travel.")

    @server.tool
    async def forecast(city: str, days: int = 3) -> FromDataclass:
        """The weather of the days to come.

        Args:
            city: where
            days: how many
        """
        if city == "Atlantis":
            raise ToolError("There is no such city")
        return FromDataclass(f"{city} for {days}")

    @server.resource("weather://{city}/now", mime_type="application/json")
    async def now(city: str) -> dict[str, str]:
        return {"city": city}

    @server.resource("weather://cities")
    def cities() -> str:
        return "Oslo"

    @server.prompt
    def plan(city: str) -> str:
        """Plan a trip."""
        return f"Plan a trip to {city}"

    return server


# --- names ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "Server",
        "Context",
        "Client",
        "ToolError",
        "Refusal",
        "Timeouts",
        "Reconnect",
        "DovetailError",
        "ProtocolError",
        "TransportError",
        "RequestTimeout",
        "SessionLost",
        "CapabilityError",
    ],
)
def test_everything_named_on_the_page_is_importable_from_the_package(name: str) -> None:
    assert name in dovetail.__all__
    assert getattr(dovetail, name).__doc__


def test_the_three_limits_are_given_in_seconds() -> None:
    limits = Timeouts(connect=1, idle=2.5, total=30)
    assert (limits.connect, limits.idle, limits.total) == (1, 2.5, 30)
    assert Reconnect(first=0.1).first == 0.1


# --- the server: decorators ----------------------------------------------------------------------------------


@every_revision
@run
async def test_the_docstring_describes_the_tool_and_its_parameters(revision: str) -> None:
    async with connect(forecaster(), revision) as client:
        (tool,) = await client.list_tools()
    assert tool.name == "forecast"
    assert tool.description == "The weather of the days to come."
    properties = tool.input_schema["properties"]
    assert properties["city"] == {"type": "string", "description": "where"}
    assert properties["days"] == {"type": "integer", "description": "how many", "default": 3}
    assert tool.input_schema["required"] == ["city"]


@run
async def test_a_decorated_function_stays_an_ordinary_callable() -> None:
    server = Server("s")

    @server.tool
    def add(a: int, b: int = 1) -> int:
        return a + b

    @server.tool(title="Twice")
    async def twice(a: int) -> int:
        return 2 * a

    @server.resource("a://b")
    def read() -> str:
        return "x"

    @server.prompt
    def ask(topic: str) -> str:
        return topic

    @server.completion(ref="ask", argument="topic")
    def topics(value: str) -> list[str]:
        return [value + "!"]

    assert (add(1), add(1, b=5), await twice(4), read(), ask("x"), topics("a")) == (2, 6, 8, "x", "x", ["a!"])
    assert inspect.iscoroutinefunction(twice)
    assert add.__name__ == "add"


@run
async def test_a_plain_function_runs_in_a_thread_and_does_not_hold_up_the_others() -> None:
    server = Server("s")
    entered, released = threading.Event(), threading.Event()

    @server.tool
    def wait() -> int:
        """Wait."""
        entered.set()
        released.wait(20)
        return threading.get_ident()

    @server.tool
    async def release() -> bool:
        """Let it go on."""
        await asyncio.to_thread(entered.wait, 20)
        released.set()
        return True

    async with Client(server) as client:
        waiting, _ = await asyncio.gather(client.call_tool("wait"), client.call_tool("release"))
    assert waiting.data != threading.get_ident()


DESCRIBED: dict[str, Any] = {
    "title": "A title",
    "description": "A description",
    "icons": [{"src": "https://example.com/i.png", "mimeType": "image/png"}],
    "annotations": {"audience": ["user"]},
    "meta": {"example.com/team": "a"},
    "tags": {"x"},
}


@run
async def test_every_decorator_takes_the_same_six_words() -> None:
    server = Server("s")

    @server.tool(**DESCRIBED)
    def tool() -> str:
        return ""

    @server.resource("a://b", **DESCRIBED)
    def resource() -> str:
        return ""

    @server.resource("a://{b}/c", **DESCRIBED)
    def template(b: str) -> str:
        return b

    @server.prompt(**DESCRIBED | {"annotations": None})
    def prompt() -> str:
        return ""

    async with connect(server, "2025-11-25") as client:
        listed: list[Any] = [
            *await client.list_tools(),
            *await client.list_resources(),
            *await client.list_resource_templates(),
            *await client.list_prompts(),
        ]
    assert len(listed) == 4
    for entry in listed:
        assert (entry.title, entry.description) == ("A title", "A description")
        assert entry.icons[0].src == "https://example.com/i.png"
        assert entry.meta["example.com/team"] == "a"
    assert [entry.annotations["audience"] for entry in listed[:3]] == [["user"]] * 3


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        (FromDataclass, lambda: FromDataclass("Oslo")),
        (FromDict, lambda: {"city": "Oslo"}),
        (FromStruct, lambda: FromStruct("Oslo")),
        (FromAttrs, lambda: FromAttrs("Oslo")),
        (FromPydantic, lambda: FromPydantic(city="Oslo")),
    ],
)
@every_revision
@run
async def test_structured_results_of_every_family_come_out_as_data(
    revision: str, kind: Any, make: Callable[[], Any]
) -> None:
    server = Server("s")

    async def answer() -> Any:
        """Answer."""
        return make()

    answer.__annotations__["return"] = kind
    server.tool(answer)
    async with connect(server, revision) as client:
        result = await client.call_tool("answer")
    assert result.data == {"city": "Oslo"}
    assert json.loads(result.text) == {"city": "Oslo"}


@every_revision
@run
async def test_scalars_and_content_blocks_are_results_too(revision: str) -> None:
    server = Server("s")

    @server.tool
    def number() -> int:
        return 7

    @server.tool
    def picture() -> list[TextContent | ImageContent]:
        return [TextContent("look"), ImageContent("AAAA", "image/png")]

    async with connect(server, revision) as client:
        assert (await client.call_tool("number")).data == 7
        shown = await client.call_tool("picture")
    assert [type(block) for block in shown.content] == [TextContent, ImageContent]
    assert (shown.text, shown.is_error) == ("look", False)


@pytest.mark.parametrize("revision", ASKING)
@run
async def test_the_booking_of_the_page_works_on_every_revision_that_has_forms(revision: str) -> None:
    server, payments = travel()
    seen: list[tuple[float, float | None, str | None]] = []

    async def on_elicit(request: Any) -> Any:
        assert request.message == "Which seat?"
        return {"action": "accept", "content": {"row": 3, "letter": "F"}}

    async def on_sample(request: Any) -> Any:
        assert request.max_tokens == 200
        return {"role": "assistant", "content": {"type": "text", "text": "Thanks!"}, "model": "m"}

    async with Client(server, revision=revision, on_elicit=on_elicit, on_sample=on_sample) as client:
        (tool,) = await client.list_tools()
        assert (tool.title, tool.annotations) == ("Book", {"destructiveHint": True})
        result = await client.call_tool(
            "book", {"flight": "DY1"}, timeout=10, on_progress=lambda *news: seen.append(news)
        )
    assert result.data == {
        "flight": "DY1",
        "seat": {"row": 3, "letter": "F"},
        "paid": 120,
        "note": "Thanks!",
    }
    assert payments == ["DY1"]
    assert seen
    assert set(seen) == {(1, 2, "paid")}


@pytest.mark.parametrize("revision", ASKING)
@pytest.mark.parametrize("action", ["decline", "cancel"])
@run
async def test_a_user_who_does_not_choose_a_seat_pays_nothing(revision: str, action: str) -> None:
    server, payments = travel()

    async def on_elicit(request: Any) -> Any:
        return {"action": action}

    async def on_sample(request: Any) -> Any:
        raise AssertionError("nobody asked")

    async with Client(server, revision=revision, on_elicit=on_elicit, on_sample=on_sample) as client:
        with pytest.raises(ToolError, match="No seat chosen"):
            await client.call_tool("book", {"flight": "DY1"})
    assert payments == []


@every_revision
@run
async def test_only_the_text_of_a_tool_error_reaches_the_client(revision: str) -> None:
    server = Server("s")

    @server.tool
    def said() -> str:
        raise ToolError("Try another city")

    @server.tool
    def unsaid() -> str:
        raise RuntimeError("password=hunter2")

    async with connect(server, revision) as client:
        with pytest.raises(ToolError, match="Try another city"):
            await client.call_tool("said")
        result = await client.call_tool("unsaid", check=False)
    assert result.is_error
    assert "hunter2" not in result.text
    assert "incident" in result.text


# --- the server: everything else -----------------------------------------------------------------------------


@every_revision
@run
async def test_a_raw_schema_survives_untouched_and_its_handler_gets_one_dict(revision: str) -> None:
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 1, "x-mine": [1, {"b": None}]}},
        "required": ["a"],
        "$defs": {"unused": {"const": 1}},
        "if": {"properties": {"a": {"const": 1}}},
        "unevaluatedProperties": False,
    }
    server = Server("s")
    got: list[Any] = []

    async def handler(arguments: dict[str, Any]) -> str:
        got.append(arguments)
        return "ok"

    server.add_tool(name="raw", input_schema=schema, handler=handler)
    async with connect(server, revision) as client:
        (tool,) = await client.list_tools()
        assert tool.input_schema == schema
        assert (await client.call_tool("raw", {"a": 2})).text == "ok"
    assert got == [{"a": 2}]


@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize("ref", ["plan", "weather://{city}/now", "forecast"])
@run
async def test_a_completion_takes_the_value_and_if_it_asks_the_arguments_given(
    ref: str, asynchronous: bool
) -> None:
    server = forecaster()
    if asynchronous:

        @server.completion(ref=ref, argument="city")
        async def cities(value: str, arguments: dict[str, str]) -> list[str]:
            return [f"{value} {arguments.get('country', 'anywhere')}"]
    else:

        @server.completion(ref=ref, argument="city")
        def short(value: str) -> list[str]:
            return [value + "slo"]

    wire = {
        "plan": {"type": "ref/prompt", "name": "plan"},
        "forecast": {"type": "ref/tool", "name": "forecast"},
    }.get(ref, {"type": "ref/resource", "uri": ref})
    async with connect(server, "2025-11-25") as client:
        found = await client.complete(
            wire, {"name": "city", "value": "O"}, context={"arguments": {"country": "Norway"}}
        )
        assert found.completion.values == (["O Norway"] if asynchronous else ["Oslo"])
        if ref == "plan":
            found = await client.complete("plan", "city", "O")
            assert found.completion.values == (["O anywhere"] if asynchronous else ["Oslo"])


@every_revision
@run
async def test_what_changes_is_told_by_itself(revision: str) -> None:
    server = forecaster()
    changed, updated = asyncio.Event(), asyncio.Event()
    async with Client(
        server,
        revision=revision,
        on_list_changed=lambda *_: changed.set(),
        on_resource_updated=lambda *_: updated.set(),
    ) as client:
        await client.list_tools()
        server.remove_tool("forecast")
        await changed.wait()
        assert await client.list_tools(fresh=True) == []
        await client.subscribe_resource("weather://cities")
        await server.notify_resource_updated("weather://cities")
        await updated.wait()


@every_revision
@run
async def test_the_context_knows_who_asks(revision: str) -> None:
    server = Server("s")
    seen: dict[str, Any] = {}

    @server.resource("a://b")
    def text() -> str:
        return "inner"

    @server.tool
    async def look(ctx: Context) -> str:
        seen.update(
            request_id=ctx.request_id,
            revision=ctx.revision,
            client_info=ctx.client_info,
            client_capabilities=ctx.client_capabilities,
            principal=ctx.principal,
            scope=ctx.scope,
            cancelled=ctx.cancelled,
            roots=[root.uri for root in await ctx.list_roots()],
            resource=(await ctx.read_resource("a://b"))[0].text,
        )
        return "seen"

    async with Client(server, revision=revision, on_roots=lambda: [{"uri": "file:///a", "name": "a"}]) as c:
        await c.call_tool("look")
    assert isinstance(seen["request_id"], int | str)
    assert seen["revision"] == revision
    assert seen["client_info"]["name"]
    assert seen["client_info"].name == seen["client_info"]["name"]
    assert "roots" in seen["client_capabilities"]
    assert (seen["principal"], seen["cancelled"]) == (None, False)
    assert "transport" in seen["scope"]
    assert (seen["roots"], seen["resource"]) == (["file:///a"], "inner")


@every_revision
@run
async def test_every_level_of_logging_has_its_method(revision: str) -> None:
    server = Server("s")
    heard: list[tuple[str, Any]] = []

    @server.tool
    async def talk(ctx: Context) -> str:
        await ctx.debug("a")
        await ctx.info("b")
        await ctx.notice("c")
        await ctx.warning("d")
        await ctx.error({"e": 1})
        await ctx.log("critical", "f")
        return ""

    async with Client(
        server, revision=revision, on_log=lambda line: heard.append((line.level, line.data))
    ) as client:
        await client.set_logging_level("notice")
        await client.call_tool("talk")
    assert heard == [("notice", "c"), ("warning", "d"), ("error", {"e": 1}), ("critical", "f")]


@pytest.mark.parametrize("revision", ASKING)
@run
async def test_independent_questions_are_asked_in_one_round(revision: str) -> None:
    server = Server("s")
    runs: list[int] = []

    @server.tool
    async def both(ctx: Context) -> str:
        runs.append(1)
        seat, words = await ctx.ask_all(dovetail.Elicit("Seat?", Seat), dovetail.Sample("Hello"))
        assert seat.action == "accept"
        return f"{seat.data.row} {words.text} {words.model} {words.stop_reason} {len(words.content)}"

    async with Client(
        server,
        revision=revision,
        on_elicit=lambda _: {"row": 3},
        on_sample=lambda _: {
            "role": "assistant",
            "content": {"type": "text", "text": "Hi"},
            "model": "m",
            "stopReason": "endTurn",
        },
    ) as client:
        assert (await client.call_tool("both")).text == "3 Hi m endTurn 1"
    assert len(runs) == (2 if revision == "2026-07-28" else 1)


@pytest.mark.parametrize("revision", REVISIONS[3:])
@run
async def test_a_user_is_sent_to_a_url(revision: str) -> None:
    server = Server("s")

    @server.tool
    async def sign(ctx: Context) -> str:
        return (await ctx.elicit_url("Please sign", "https://example.com/sign")).action

    asked: list[str] = []

    async def on_elicit(request: Any) -> Any:
        asked.append(request.url)
        return {"action": "accept"}

    async with Client(server, revision=revision, on_elicit=on_elicit) as client:
        assert (await client.call_tool("sign")).text == "accept"
    assert asked == ["https://example.com/sign"]


@run
async def test_handle_takes_bytes_and_gives_bytes_or_nothing() -> None:
    server = Server("s")
    scopes: list[Any] = []

    @server.tool
    async def look(ctx: Context) -> str:
        scopes.append((ctx.scope["tenant"], ctx.principal))
        return "ok"

    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "look", "_meta": META}}
    reply = await server.handle(json.dumps(call).encode(), scope={"tenant": "acme", "principal": "ann"})
    assert reply is not None
    assert json.loads(reply)["result"]["content"] == [{"type": "text", "text": "ok"}]
    assert scopes == [("acme", "ann")]
    assert await server.handle(b'{"jsonrpc":"2.0","method":"notifications/initialized"}') is None


def test_run_takes_the_transports_of_the_page() -> None:
    assert inspect.signature(Server.run).bind(object())
    assert inspect.signature(Server.run).bind(object(), "http", host="127.0.0.1", port=8000)
    with pytest.raises(DovetailError, match="carrier pigeon"):
        Server("s").run("carrier pigeon")  # pyright: ignore[reportArgumentType]


async def ask_asgi(app: Any, path: str, root_path: str = "") -> tuple[int, dict[str, Any]]:
    """One modern ``server/discover`` through an ASGI application, with no lifespan around it."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": META}}
    body = json.dumps(message).encode()
    headers = {
        "host": "127.0.0.1",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "server/discover",
    }
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": root_path,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    sent: list[dict[str, Any]] = []
    over = asyncio.Event()
    pieces = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> dict[str, Any]:
        for piece in pieces:
            return piece
        await over.wait()
        return {"type": "http.disconnect"}

    async def send(event: dict[str, Any]) -> None:
        sent.append(event)

    await app(scope, receive, send)
    over.set()
    data = b"".join(event.get("body", b"") for event in sent[1:])
    return sent[0]["status"], json.loads(data)


@pytest.mark.parametrize(("path", "root_path"), [("/mcp", ""), ("/api/mcp", "/api")])
@run
async def test_an_asgi_application_answers_at_mcp_below_whatever_prefix(path: str, root_path: str) -> None:
    server = forecaster()
    status, message = await ask_asgi(server.asgi(), path, root_path)
    assert status == 200
    assert message["result"]["supportedVersions"][0] == "2026-07-28"
    await server.stop()


@pytest.mark.parametrize(("dialect", "code"), [("official", -32602), ("erlmcp", -32002), ("minimcp", -32602)])
@run
async def test_a_server_speaks_the_dialect_it_was_made_with(dialect: str, code: int) -> None:
    server = Server("s", dialect=dialect)

    @server.tool
    def known() -> str:
        """Known."""
        return ""

    async with connect(server, "2025-11-25", dialect=dialect) as client:
        with pytest.raises(ProtocolError) as caught:
            await client.call_tool("unknown")
    assert (caught.value.code, caught.value.kind) == (code, "tool_not_found")


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
async def test_a_client_finds_or_is_told_its_revision(policy: str, expected: str) -> None:
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
async def test_a_model_may_answer_with_a_word(revision: str, answer: Any) -> None:
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


def test_the_client_takes_the_words_of_the_page() -> None:
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

    limits = Timeouts(
        connect=5, idle=0.05 if limit == "idle" else None, total=0.05 if limit == "total" else 5
    )
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

    begun = time.monotonic()
    async with Client(server, clock=clock) as client:
        call = asyncio.create_task(client.call_tool("hang", timeout=60))
        await hanging.wait()
        clock.advance(61)
        with pytest.raises(RequestTimeout):
            await call
    assert time.monotonic() - begun < 20


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
