"""Every option that a FastMCP server may be given does what its name says, is refused, or is said to do nothing."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from dovetail import Client as Native
from dovetail.compat.fastmcp import Client, Context, FastMCP
from dovetail.compat.fastmcp.server.auth.providers.jwt import JWTVerifier
from dovetail.compat.fastmcp.server.middleware import Middleware, MiddlewareContext
from dovetail.compat.fastmcp.tools import Tool
from dovetail.compat.mcp.server.fastmcp import Context as SdkContext
from dovetail.compat.mcp.server.fastmcp import FastMCP as SdkFastMCP
from dovetail.compat.mcp.server.lowlevel import Server
from dovetail.compat.mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from dovetail.errors import DovetailError
from tests.support.waiting import until


class Point(BaseModel):
    x: int


class Line(BaseModel):
    start: Point
    end: Point


def test_strict_input_validation_takes_no_text_for_a_number() -> None:
    async def said(**options: Any) -> str:
        mcp = FastMCP("strict", **options)

        @mcp.tool
        def twice(n: int) -> str:
            return str(2 * n)

        async with Native(mcp.native) as client:
            result = await client.call_tool("twice", {"n": "4"}, check=False)
        return f"{result.is_error} {result.content[0].text}"

    assert asyncio.run(said()) == "False 8"
    strict = asyncio.run(said(strict_input_validation=True))
    assert strict.startswith("True Input validation error: ")


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
def test_a_page_has_as_many_entries_as_the_author_says(revision: str) -> None:
    mcp = FastMCP("pages", list_page_size=2)
    for name in "abcde":
        mcp.tool(lambda: "", name=name)

    async def pages() -> None:
        async with Native(mcp.native, revision=revision) as client:
            assert [tool.name for tool in await client.list_tools()] == list("abcde")
            first = await client.request("tools/list")
            assert [one.name for one in first.tools] == ["a", "b"]
            with pytest.raises(DovetailError):
                await client.request("tools/list", {"cursor": "from:x"})

    asyncio.run(pages())
    with pytest.raises(ValueError, match="list_page_size"):
        FastMCP("pages", list_page_size=0)


def test_messages_below_the_level_of_the_author_are_not_sent() -> None:
    mcp = FastMCP("quiet", client_log_level="warning")

    @mcp.tool
    async def speak(ctx: Context) -> str:
        await ctx.info("low")
        await ctx.warning("high")
        return "said"

    async def heard() -> list[Any]:
        found: list[Any] = []
        async with Native(mcp.native, revision="2025-06-18", on_log=found.append) as client:
            await client.call_tool("speak", {})
            await until(lambda: bool(found))
        return [one.data["msg"] for one in found]

    assert asyncio.run(heard()) == ["high"]
    with pytest.raises(ValueError, match="client_log_level"):
        FastMCP("loud", client_log_level="shouting")


def test_state_of_a_session_lies_in_the_store_that_was_given() -> None:
    memory = pytest.importorskip("key_value.aio.stores.memory")
    store = memory.MemoryStore()
    mcp = FastMCP("kept", session_state_store=store)

    @mcp.tool
    async def count(ctx: Context) -> str:
        seen = (await ctx.get_state("seen") or 0) + 1
        await ctx.set_state("seen", seen)
        return str(seen)

    @mcp.tool
    async def forget(ctx: Context) -> str:
        await ctx.delete_state("seen")
        return str(await ctx.get_state("seen"))

    async def conversation() -> None:
        async with Native(mcp.native, revision="2025-06-18") as client:
            assert [(await client.call_tool("count", {})).content[0].text for _ in range(2)] == ["1", "2"]
            assert len(await store.keys(collection="fastmcp_state")) == 1
            assert (await client.call_tool("forget", {})).content[0].text == "None"
        async with Native(mcp.native, revision="2025-06-18") as client:
            assert (await client.call_tool("count", {})).content[0].text == "1"

    asyncio.run(conversation())


def test_schemas_keep_their_references_where_the_author_wants_them() -> None:
    async def shown(**options: Any) -> tuple[Any, Any]:
        mcp = FastMCP("lines", **options)

        @mcp.tool
        def mirror(line: Line) -> Line:
            return line

        async with Native(mcp.native) as client:
            (tool,) = await client.list_tools()
            moved = await client.call_tool("mirror", {"line": {"start": {"x": 1}, "end": {"x": 2}}})
            assert moved.structured_content == {"start": {"x": 1}, "end": {"x": 2}}
        return tool.input_schema, tool.output_schema

    for schema in asyncio.run(shown()):
        assert "$ref" not in str(schema)
    for schema in asyncio.run(shown(dereference_schemas=False)):
        assert "$ref" in str(schema)
        assert "Point" in schema["$defs"]


def test_what_has_no_meaning_here_is_said_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    FastMCP("plain", dependencies=["pandas"])
    SdkFastMCP("plain", dependencies=["pandas"])
    Client(FastMCP("plain"), verify=False)
    assert "verify" in caplog.text
    said = [record.getMessage() for record in caplog.records if "dependencies" in record.getMessage()]
    assert len(said) == 2


def test_an_event_store_that_cannot_be_asked_is_refused() -> None:
    for make in (
        lambda: FastMCP("resumed").http_app(event_store=object()),
        lambda: SdkFastMCP("resumed", event_store=object()),
        lambda: StreamableHTTPSessionManager(Server("resumed"), event_store=object()),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match="event_store=object has no store_event"):
            make()


def test_the_sdk_knows_no_description_of_a_server() -> None:
    with pytest.raises(TypeError, match="'description'"):
        SdkFastMCP("described", description="what it is for")


def test_an_option_that_nobody_knows_is_refused_everywhere() -> None:
    mcp, sdk = FastMCP("known"), SdkFastMCP("known")
    made = mcp.tool(lambda: "", name="made")
    for refused in (
        lambda: FastMCP("odd", no_such=1),
        lambda: SdkFastMCP("odd", no_such=1),
        lambda: mcp.http_app(no_such=1),
        lambda: sdk.streamable_http_app(no_such=1),  # type: ignore[call-arg]
        lambda: sdk.sse_app(no_such=1),  # type: ignore[call-arg]
        lambda: JWTVerifier(jwks_uri="https://a.example/keys", no_such=1),  # type: ignore[call-arg]
        lambda: Tool.from_tool(made, no_such=1),
        lambda: Client(mcp, no_such=1),
    ):
        with pytest.raises(TypeError, match="no_such"):
            refused()
    with pytest.raises(ValueError, match="ssrf_safe"):
        JWTVerifier(jwks_uri="https://a.example/keys", ssrf_safe=True)


def test_the_sdk_sends_what_is_beside_a_message() -> None:
    sdk = SdkFastMCP("beside")

    @sdk.tool()
    async def speak(ctx: SdkContext[Any, Any, Any]) -> str:
        await ctx.info("hello", extra={"n": 1})
        return "said"

    async def heard() -> list[Any]:
        found: list[Any] = []
        async with Native(sdk.native, revision="2025-06-18", on_log=found.append) as client:
            await client.call_tool("speak", {})
            await until(lambda: bool(found))
        return [one.data for one in found]

    assert asyncio.run(heard()) == [{"message": "hello", "n": 1}]


class Hearing(Middleware):
    def __init__(self) -> None:
        self.heard: list[Any] = []

    async def on_notification(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        self.heard.append((context.type, context.method, type(context.message).__name__))
        return await call_next(context)


def test_middleware_hears_notifications() -> None:
    hearing = Hearing()
    mcp = FastMCP("heard", middleware=[hearing])

    async def conversation() -> None:
        async with Native(mcp.native, revision="2025-06-18"):
            await until(lambda: bool(hearing.heard))

    asyncio.run(conversation())
    assert hearing.heard == [("notification", "notifications/initialized", "InitializedNotification")]


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def test_bounds_of_http_are_those_of_the_author() -> None:
    async def conversation() -> None:
        mcp = SdkFastMCP("small", max_request_body_size=2000, max_sessions=1)
        app = mcp.streamable_http_app()
        assert mcp.native.limits.sessions == 1
        headers = {"accept": "application/json, text/event-stream"}
        transport = httpx.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(
                transport=transport, base_url="http://localhost:8000", headers=headers
            ) as client,
        ):
            large = {**INITIALIZE, "id": "x" * 2000}
            assert (await client.post("/mcp", json=large)).status_code == 413
            assert (await client.post("/mcp", json=INITIALIZE)).status_code == 200

    asyncio.run(conversation())


@pytest.mark.parametrize("validate", [True, False])
def test_answers_of_an_api_are_checked_unless_the_author_says_no(validate: bool) -> None:
    fastapi = pytest.importorskip("fastapi")
    app = fastapi.FastAPI(title="Pets")

    @app.get("/pet", operation_id="pet", response_model=Point)
    def pet() -> Any:
        return fastapi.responses.JSONResponse({"x": "old"})

    async def conversation() -> None:
        mcp = FastMCP.from_fastapi(app, validate_output=validate)
        async with Native(mcp.native) as client:
            result = await client.call_tool("pet", {}, check=False)
        assert result.is_error is validate
        assert ("old" in str(result.content)) is not validate

    asyncio.run(conversation())


def test_settings_of_uvicorn_are_obeyed() -> None:
    """Whoever names a certificate is not served without one."""
    pytest.importorskip("uvicorn")
    settings = {"ssl_certfile": "/no/such/file", "ssl_keyfile": "/no/such/file"}
    with pytest.raises(FileNotFoundError):
        asyncio.run(FastMCP("secure").run_http_async(port=0, uvicorn_config=settings))
