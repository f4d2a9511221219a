"""The public page, continued: what handlers see, and how a server is reached."""

import asyncio
import inspect
import json
from typing import Any

import pytest

import dovetail
import dovetail.sync
from dovetail import Client, Context, DovetailError, ProtocolError, Server
from dovetail.testing import connect

from .support.aio import run
from .support.promise import (
    ASKING,
    META,
    REVISIONS,
    Seat,
    every_revision,
    forecaster,
)

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
async def test_changes_are_reported_automatically(revision: str) -> None:
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
async def test_independent_input_requests_are_asked_in_one_round(revision: str) -> None:
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
    await server.lifecycle.stop()


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
