"""What servers of the SDK's FastMCP do beyond lists and calls: questions, lifespan, settings, own routes, HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount

from dovetail import Client
from dovetail.compat.fastmcp import FastMCP as Newer
from dovetail.compat.fastmcp.server.auth import StaticTokenVerifier
from dovetail.compat.mcp.server.fastmcp import Context, FastMCP
from dovetail.compat.mcp.server.fastmcp.exceptions import ToolError
from dovetail.compat.mcp.server.fastmcp.prompts import Prompt
from dovetail.compat.mcp.server.fastmcp.resources import TextResource
from dovetail.compat.mcp.server.fastmcp.tools import ToolManager
from dovetail.compat.mcp.types import Completion
from tests.support.aio import run
from tests.support.waiting import HANG

ERAS = ("2025-06-18", "2025-11-25", "2026-07-28")


class Seat(BaseModel):
    row: int
    aisle: bool = False


@pytest.mark.parametrize("revision", ERAS)
def test_questions_of_a_context_and_of_its_session_work_in_every_era(revision: str) -> None:
    mcp = FastMCP("asking")

    @mcp.tool()
    async def book(ctx: Context[Any, Any, Any]) -> str:
        seat = await ctx.elicit("Which seat?", Seat)
        roots = await ctx.session.list_roots()
        await ctx.info("asked")
        await ctx.report_progress(1, 2)
        assert seat.action == "accept"
        return f"{seat.data.row} {seat.data.aisle} {roots.roots[0].uri} {ctx.request_id is not None}"

    async def conversation() -> str:
        async with Client(
            mcp.native,
            revision=revision,
            on_elicit=lambda _: {"action": "accept", "content": {"row": 3}},
            on_roots=[{"uri": "file:///home"}],
        ) as client:
            return (await client.call_tool("book", {})).text

    assert asyncio.run(conversation()) == "3 False file:///home True"


def test_the_lifespan_is_entered_once_and_its_value_is_in_the_request_context() -> None:
    said: list[str] = []

    @asynccontextmanager
    async def lifespan(server: FastMCP[Any]) -> AsyncGenerator[dict[str, str], None]:
        said.append(server.name)
        yield {"database": "open"}
        said.append("left")

    mcp = FastMCP("living", lifespan=lifespan)

    @mcp.tool()
    def look(ctx: Context[Any, Any, Any]) -> str:
        return ctx.request_context.lifespan_context["database"]

    async def conversation() -> str:
        async with Client(mcp.native) as client:
            await client.call_tool("look", {})
            return (await client.call_tool("look", {})).text

    assert asyncio.run(conversation()) == "open"
    assert said == ["living", "left"]


def test_settings_are_keywords_the_environment_and_assignable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTMCP_PORT", "9005")
    mcp = FastMCP("settings", host="0.0.0.0", stateless_http=True)
    assert (mcp.settings.host, mcp.settings.port, mcp.settings.stateless_http) == ("0.0.0.0", 9005, True)
    mcp.settings.port = 9006
    assert mcp.settings.port == 9006
    with pytest.raises(TypeError, match="unexpected keyword"):
        FastMCP("x", nonsense=1)


def test_completions_resources_and_prompts_are_added_and_tools_replaced() -> None:
    mcp = FastMCP("adding")
    mcp.add_resource(TextResource(uri="note://a", name="note", text="hello"))  # type: ignore[arg-type]
    mcp.add_prompt(Prompt.from_function(lambda topic: f"about {topic}", name="ask"))

    @mcp.completion()
    async def complete(ref: Any, argument: Any, context: Any) -> Completion:
        return Completion(values=[f"{ref.name}:{argument.value}"])

    def one() -> str:
        return "one"

    mcp.add_tool(one)
    mcp.remove_tool("one")
    mcp.add_tool(lambda: "two", name="one")

    async def conversation() -> None:
        async with Client(mcp.native) as client:
            assert (await client.call_tool("one", {})).text == "two"
            read = await client.read_resource("note://a")
            assert read.contents[0].text == "hello"
            found = await client.complete("ask", "topic", "c")
            assert "ask:c" in str(found)

    asyncio.run(conversation())
    with pytest.raises(ToolError, match="Unknown tool"):
        mcp.remove_tool("none")


def test_decorators_without_their_call_are_told_so() -> None:
    mcp = FastMCP("wrong")
    for decorate in (mcp.tool, mcp.prompt, mcp.resource):
        with pytest.raises(TypeError, match="Did you forget to call it"):
            decorate(lambda: 1)  # type: ignore[arg-type]


def ask(app: Any, *requests: dict[str, Any]) -> list[httpx.Response]:
    """What ``app`` answers, one after the other, in one life."""

    async def conversation() -> list[httpx.Response]:
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
                return [await client.request(**request) for request in requests]

    return asyncio.run(conversation())


def initialize(url: str = "/mcp", **headers: str) -> dict[str, Any]:
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    accept = {"accept": "application/json, text/event-stream", **headers}
    return {"method": "POST", "url": url, "json": message, "headers": accept}


def web() -> FastMCP[Any]:
    mcp = FastMCP("web", json_response=True)

    @mcp.custom_route("/health", methods=["GET"])
    async def health(request: Request) -> PlainTextResponse:
        return PlainTextResponse(f"fine {request.query_params['a']}")

    return mcp


def test_an_application_has_own_routes_and_the_endpoint() -> None:
    health, begun = ask(web().streamable_http_app(), {"method": "GET", "url": "/health?a=1"}, initialize())
    assert health.text == "fine 1"
    assert begun.json()["result"]["serverInfo"]["name"] == "web"


def test_an_application_can_be_mounted_in_another() -> None:
    mcp = web()
    outer = Starlette(
        routes=[Mount("/api", app=mcp.streamable_http_app())], lifespan=lambda _: mcp.session_manager.run()
    )
    (begun,) = ask(outer, initialize("/api/mcp"))
    assert begun.status_code == 200


def test_a_token_verifier_lets_in_whoever_it_knows() -> None:
    mcp = Newer("guarded", auth=StaticTokenVerifier({"good": {"client_id": "me", "scopes": ["a"]}}))
    bad, good = initialize(authorization="Bearer bad"), initialize(authorization="Bearer good")
    answers = ask(mcp.http_app(json_response=True), initialize(), bad, good)
    assert [one.status_code for one in answers] == [401, 401, 200]


@pytest.mark.parametrize("kind", ["tools", "resources", "prompts"])
@run
async def test_a_changed_list_that_a_handler_tells_of_is_heard_though_nobody_declared_it(kind: str) -> None:
    mcp, heard = FastMCP("changing"), asyncio.Queue[str]()

    @mcp.tool()
    async def change(ctx: Context[Any, Any, Any]) -> str:
        await getattr(ctx.session, f"send_{kind.removesuffix('s')}_list_changed")()
        return "changed"

    client = Client(mcp.native, revision="2025-06-18", on_list_changed=heard.put_nowait)
    async with client, asyncio.timeout(HANG):
        assert not client.server_capabilities.has(f"{kind}.listChanged")
        await client.call_tool("change", {})
        assert await heard.get() == kind
        assert heard.empty()


def test_what_cannot_be_called_is_no_tool_and_is_said_as_theirs_does() -> None:
    one: Any = 1
    for add in (FastMCP("broken").add_tool, ToolManager().add_tool):
        with pytest.raises(AttributeError, match="__name__"):
            add(one)
