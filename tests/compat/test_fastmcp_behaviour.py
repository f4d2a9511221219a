"""What FastMCP servers do beyond lists and calls: middleware, state, questions, visibility, mounts, settings."""

from __future__ import annotations

import asyncio
import importlib
import logging
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dovetail import Client as Native
from dovetail.compat.fastmcp import Client, Context, FastMCP
from dovetail.compat.fastmcp.dependencies import CurrentContext, Depends, Progress
from dovetail.compat.fastmcp.exceptions import NotFoundError, ToolError, ValidationError
from dovetail.compat.fastmcp.server.dependencies import get_access_token, get_context, get_http_headers
from dovetail.compat.fastmcp.server.middleware import Middleware, MiddlewareContext
from dovetail.compat.fastmcp.server.middleware.logging import LoggingMiddleware
from dovetail.compat.fastmcp.server.middleware.rate_limiting import RateLimitingMiddleware
from dovetail.compat.fastmcp.server.middleware.tool_injection import (
    PromptToolMiddleware,
    ResourceToolMiddleware,
    ToolInjectionMiddleware,
)
from dovetail.compat.fastmcp.server.providers.openapi import HTTPRoute, MCPType, RouteMap
from dovetail.compat.fastmcp.settings import Settings
from dovetail.compat.fastmcp.tools import Tool, tool
from dovetail.compat.fastmcp.tools.tool_transform import ArgTransform, ToolTransformConfig

ERAS = ("2025-06-18", "2025-11-25", "2026-07-28")


async def text(client: Any, name: str, **arguments: Any) -> str:
    return (await client.call_tool(name, arguments)).content[0].text


@pytest.mark.parametrize("revision", ERAS)
def test_questions_and_reports_work_in_every_era(revision: str) -> None:
    mcp = FastMCP("asking")

    @mcp.tool
    async def book(ctx: Context) -> str:
        seat = await ctx.elicit("Which seat?", ["window", "aisle"])
        words = await ctx.sample("Write a note", max_tokens=10)
        roots = await ctx.list_roots()
        await ctx.report_progress(1, 2, "half")
        return f"{seat.action} {seat.data} {words.text} {roots[0].uri}"

    async def conversation() -> None:
        progress: list[Any] = []
        async with Native(
            mcp.native,
            revision=revision,
            on_elicit=lambda _: {"action": "accept", "content": {"value": "aisle"}},
            on_sample=lambda _: {
                "role": "assistant",
                "content": {"type": "text", "text": "hi"},
                "model": "m",
            },
            on_roots=[{"uri": "file:///home"}],
        ) as client:
            result = await client.call_tool("book", {}, on_progress=lambda *said: progress.append(said))
        assert result.content[0].text == "accept aisle hi file:///home"
        assert progress[-1] == (1, 2, "half")

    asyncio.run(conversation())


@pytest.mark.parametrize("revision", ERAS)
def test_a_client_that_cannot_be_asked_is_told_so(revision: str) -> None:
    mcp = FastMCP("asking")

    @mcp.tool
    async def ask(ctx: Context) -> str:
        return str(await ctx.elicit("Name?", str))

    async def conversation() -> Any:
        async with Native(mcp.native, revision=revision) as client:
            return await client.call_tool("ask", {}, check=False)

    if revision < "2026":
        assert (
            asyncio.run(conversation()).content[0].text
            == "Error calling tool 'ask': Elicitation not supported"
        )
    else:
        with pytest.raises(Exception, match="elicitation"):
            asyncio.run(conversation())


def test_state_is_plain_for_fastmcp_2_and_awaited_for_3() -> None:
    mcp = FastMCP("state")

    @mcp.tool
    async def both(ctx: Context) -> str:
        ctx.set_state("a", 1)
        await ctx.set_state("b", 2)
        plain = ctx.get_state("a")
        return f"{plain} {await ctx.get_state('b')} {ctx.get_state('none')} {await ctx.get_state('none')}"

    async def conversation() -> str:
        async with Client(mcp) as client:
            return await text(client, "both")

    assert asyncio.run(conversation()) == "1 2 None None"


def test_what_servers_keep_on_a_session_stays_there_for_its_next_call() -> None:
    mcp = FastMCP("session")

    @mcp.tool
    async def count(ctx: Context) -> int:
        session: Any = ctx.session
        session.seen = vars(session).get("seen", 0) + 1
        return session.seen

    async def conversation(revision: str) -> list[str]:
        async with Native(mcp.native, revision=revision) as client:
            return [(await client.call_tool("count", {})).text for _ in range(2)]

    assert asyncio.run(conversation("2025-11-25")) == ["1", "2"]


class Recording(Middleware):
    def __init__(self) -> None:
        self.heard: list[str] = []

    async def on_message(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        self.heard.append(f"message {context.method}")
        return await call_next(context)

    async def on_request(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        self.heard.append("request")
        return await call_next(context)

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        self.heard.append(f"call {context.message.name}")
        context.message.arguments["x"] += 1
        context.fastmcp_context.set_state("seen", True)
        if context.message.arguments["x"] > 10:
            raise ToolError("too much")
        return await call_next(context)

    async def on_list_tools(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        return [one for one in await call_next(context) if "hidden" not in one.tags]

    async def on_read_resource(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        self.heard.append(f"read {context.message.uri}")
        return await call_next(context)

    async def on_get_prompt(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        self.heard.append(f"prompt {context.message.name}")
        return await call_next(context)

    async def on_initialize(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        self.heard.append(f"initialize {context.message.params.clientInfo.name}")
        return await call_next(context)


def test_middleware_stands_around_every_request_and_may_change_it() -> None:
    seen = Recording()
    mcp = FastMCP("middle", middleware=[seen])

    @mcp.tool
    def double(x: int) -> str:
        return f"{2 * x} {get_context().get_state('seen')}"

    @mcp.tool(tags={"hidden"})
    def secret(x: int) -> int:
        return x

    @mcp.resource("a://b")
    def resource() -> str:
        return "r"

    @mcp.prompt
    def hello() -> str:
        return "p"

    async def conversation() -> None:
        async with Native(mcp.native, revision="2025-11-25") as client:
            assert [one.name for one in await client.list_tools()] == ["double"]
            assert (await client.call_tool("double", {"x": 1})).text == "4 True"
            refused = await client.call_tool("double", {"x": 10}, check=False)
            assert refused.is_error
            assert refused.text == "too much"
            await client.read_resource("a://b")
            await client.get_prompt("hello", {})

    asyncio.run(conversation())
    assert seen.heard[:3] == ["message initialize", "request", "initialize dovetail"]
    for words in ("message tools/call", "call double", "read a://b", "prompt hello"):
        assert words in seen.heard


def test_ready_made_middleware_logs_and_limits(caplog: pytest.LogCaptureFixture) -> None:
    mcp = FastMCP("ready")
    mcp.add_middleware(LoggingMiddleware(include_payloads=True))
    mcp.add_middleware(RateLimitingMiddleware(max_requests_per_second=0.001, burst_capacity=3))

    @mcp.tool
    def ping() -> str:
        return "pong"

    async def conversation() -> list[str]:
        async with Client(mcp) as client:
            results = [await client.call_tool("ping", {}, raise_on_error=False) for _ in range(4)]
            return [one.content[0].text for one in results]

    with caplog.at_level(logging.INFO, logger="fastmcp"):
        said = asyncio.run(conversation())
    assert said[0] == "pong"
    assert said[-1] == "Rate limit exceeded"
    assert "method=tools/call" in caplog.text
    assert '"name":"ping"' in caplog.text


def test_dependencies_are_made_for_each_call_and_hidden() -> None:
    mcp = FastMCP("dependencies")
    left: list[str] = []

    async def session(ctx: Context) -> Any:
        return f"session of {ctx.fastmcp.name}"

    @asynccontextmanager
    async def database() -> Any:
        yield "open"
        left.append("closed")

    @mcp.tool
    async def use(
        x: int,
        ctx: Context = CurrentContext(),  # noqa: B008
        who: str = Depends(session),  # type: ignore[assignment]
        db: str = Depends(database),  # type: ignore[assignment]
        progress: Progress = Progress(),  # noqa: B008
    ) -> str:
        await progress.set_total(3)
        await progress.increment()
        return f"{x} {who} {db} {ctx.fastmcp.name}"

    async def conversation() -> None:
        async with Client(mcp) as client:
            (shown,) = await client.list_tools()
            assert list(shown.inputSchema["properties"]) == ["x"]
            assert await text(client, "use", x=1) == "1 session of dependencies open dependencies"
            with pytest.raises(ToolError, match="Unexpected keyword argument"):
                await client.call_tool("use", {"x": 1, "who": "me"})

    asyncio.run(conversation())
    assert left == ["closed"]


def test_outside_of_a_request_there_is_no_context() -> None:
    with pytest.raises(RuntimeError, match="No active context found"):
        get_context()
    assert get_http_headers() == {}
    assert get_access_token() is None


def test_components_are_shown_and_hidden_by_tags_and_names() -> None:
    mcp = FastMCP("visible")
    for name, tags in (("a", {"x"}), ("b", {"y"}), ("c", {"x", "y"})):
        mcp.tool(lambda: "ok", name=name, tags=tags)

    async def names() -> list[str]:
        async with Client(mcp) as client:
            return [one.name for one in await client.list_tools()]

    mcp.disable(tags={"y"})
    assert asyncio.run(names()) == ["a"]
    mcp.enable(names={"b"})
    assert asyncio.run(names()) == ["a", "b"]
    mcp.enable(tags={"y"}, only=True)
    assert asyncio.run(names()) == ["b", "c"]

    async def call_hidden() -> None:
        await mcp.call_tool("a", {})

    with pytest.raises(NotFoundError, match="Unknown tool"):
        asyncio.run(call_hidden())


def test_a_session_sees_what_it_was_shown() -> None:
    mcp = FastMCP("unlocking")
    mcp.tool(lambda: "ok", name="plain")
    mcp.tool(lambda: "ok", name="special", tags={"special"})
    mcp.disable(tags={"special"})

    @mcp.tool
    async def unlock(ctx: Context) -> str:
        await ctx.enable_components(tags={"special"})
        return "unlocked"

    @mcp.tool
    async def lock(ctx: Context) -> str:
        await ctx.disable_components(names={"plain"})
        return "locked"

    async def conversation() -> tuple[list[str], list[str]]:
        old: Any = {"revision": "2025-11-25"}
        async with Native(mcp.native, **old) as first, Native(mcp.native, **old) as other:
            await first.call_tool("unlock", {})
            await first.call_tool("lock", {})
            refused = await first.call_tool("plain", {}, check=False)
            assert refused.text == "Unknown tool: 'plain'"
            seen = [one.name for one in await first.list_tools(fresh=True)]
            return seen, [one.name for one in await other.list_tools()]

    seen, others = asyncio.run(conversation())
    assert "special" in seen
    assert "special" not in others


def test_a_mounted_server_shows_what_it_gains_and_runs_in_its_own_context() -> None:
    inner, outer = FastMCP("inner"), FastMCP("outer")
    outer.mount(inner, "in")

    @inner.tool
    def late(ctx: Context) -> str:
        return ctx.fastmcp.name

    async def conversation() -> str:
        async with Client(outer) as client:
            return await text(client, "in_late")

    assert asyncio.run(conversation()) == "inner"
    with pytest.raises(ValueError, match="contain itself"):
        inner.mount(outer, "circle")


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("revision", ERAS)
def test_proxies_in_one_process_pass_questions_logs_and_progress_on(
    revision: str, depth: int, caplog: pytest.LogCaptureFixture
) -> None:
    front = FastMCP("behind")

    @front.tool
    async def ask(ctx: Context) -> str:
        await ctx.report_progress(1, 2, "half")
        await ctx.info("asking")
        return str((await ctx.elicit("Name?", str)).data)

    for number in range(depth):
        front = FastMCP.as_proxy(front, name=f"front {number}")

    async def conversation() -> None:
        progress: list[Any] = []
        logs: list[Any] = []
        async with Native(
            front.native,
            revision=revision,
            on_elicit=lambda asked: {"action": "accept", "content": {"value": f"answer to {asked.message}"}},
            on_log=lambda said: logs.append(said.data["msg"]),
        ) as client:
            await client.set_logging_level("info")
            result = await client.call_tool("ask", {}, on_progress=lambda *said: progress.append(said))
        assert result.text == "answer to Name?"
        assert (set(progress), set(logs)) == ({(1, 2, "half")}, {"asking"})

    asyncio.run(conversation())
    # A machine that is busy has the loop wait, which is told and says nothing of proxies.
    assert not [one for one in caplog.records if one.name != "dovetail.health"]


def test_a_proxy_says_that_the_client_in_front_cannot_be_asked() -> None:
    behind = FastMCP("behind")

    @behind.tool
    async def ask(ctx: Context) -> str:
        return str((await ctx.elicit("Name?", str)).data)

    async def conversation() -> str:
        async with Native(FastMCP.as_proxy(behind).native, revision="2025-11-25") as client:
            return (await client.call_tool("ask", {}, check=False)).text

    assert "did not declare the capability" in asyncio.run(conversation())


def test_tools_made_of_tools_have_other_names_and_arguments() -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    mcp = FastMCP("made")
    made = Tool.from_tool(
        Tool.from_function(add),
        name="increment",
        transform_args={
            "b": ArgTransform(hide=True, default=1),
            "a": ArgTransform(name="number", description="What"),
        },
    )
    mcp.add_tool(made)
    mcp.add_tool(Tool.from_function(add))
    mcp.add_tool_transformation("add", ToolTransformConfig(name="plus", description="Other words"))

    async def conversation() -> None:
        async with Client(mcp) as client:
            shown = {one.name: one for one in await client.list_tools()}
            assert shown["increment"].inputSchema["properties"] == {
                "number": {"type": "integer", "description": "What"}
            }
            assert shown["plus"].description == "Other words"
            assert await text(client, "increment", number=2) == "3"
            assert await text(client, "plus", a=2, b=3) == "5"

    asyncio.run(conversation())


def test_decorated_functions_stay_callable_and_marked_ones_can_be_added() -> None:
    mcp = FastMCP("callable")

    @mcp.tool
    def double(x: int) -> int:
        return 2 * x

    @tool(name="tripled", tags={"t"})
    def triple(x: int) -> int:
        return 3 * x

    mcp.add_tool(triple)
    assert double(2) == 4
    assert double.fn(2) == 4
    assert double.name == "double"
    assert triple(2) == 6

    async def conversation() -> str:
        async with Client(mcp) as client:
            return await text(client, "tripled", x=2)

    assert asyncio.run(conversation()) == "6"


def test_a_server_can_be_asked_without_a_client() -> None:
    mcp = FastMCP("asked")

    @mcp.tool
    def double(x: int) -> int:
        return 2 * x

    async def ask() -> None:
        assert (await mcp.call_tool("double", {"x": 2})).structured_content == {"result": 4}
        assert set(await mcp.get_tools()) == {"double"}
        assert [one.name for one in await mcp.list_tools()] == ["double"]
        with pytest.raises(ValidationError):
            await mcp.call_tool("double", {"x": "y"})

    asyncio.run(ask())


def test_a_second_component_follows_the_policy_for_duplicates() -> None:
    def one() -> str:
        return "one"

    mcp = FastMCP("twice", on_duplicate="error")
    mcp.tool(one)
    with pytest.raises(ValueError, match="already exists"):
        mcp.tool(one)
    with pytest.raises(TypeError, match="unexpected keyword"):
        FastMCP("x", nonsense=True)


def test_a_subclass_may_set_attributes_first_and_replace_methods() -> None:
    class Own(FastMCP[Any]):
        def __init__(self) -> None:
            self.early = "yes"
            super().__init__("own")

        def tool(self, *args: Any, **options: Any) -> Any:
            return super().tool(*args, tags={"own"}, **options)

    mcp = Own()

    @mcp.tool
    def tagged() -> str:
        return mcp.early

    async def conversation() -> None:
        async with Client(mcp) as client:
            (shown,) = await client.list_tools()
            assert (shown.meta or {})["fastmcp"]["tags"] == ["own"]
            assert await text(client, "tagged") == "yes"

    asyncio.run(conversation())


def test_lifespans_of_a_server_and_of_what_it_mounts_run_once() -> None:
    said: list[str] = []

    def lifespan(name: str) -> Any:
        @asynccontextmanager
        async def live(_: Any) -> Any:
            said.append(f"{name} up")
            yield {"name": name}
            said.append(f"{name} down")

        return live

    inner, outer = FastMCP("inner", lifespan=lifespan("inner")), FastMCP("outer", lifespan=lifespan("outer"))
    outer.mount(inner, "in")

    async def who(ctx: Context) -> str:
        found = ctx.request_context
        assert found is not None
        return found.lifespan_context["name"]

    inner.tool(who)
    outer.tool(who)

    async def conversation() -> list[str]:
        async with Client(outer) as client:
            return [await text(client, "who"), await text(client, "in_who")]

    assert asyncio.run(conversation()) == ["outer", "inner"]
    assert said == ["outer up", "inner up", "inner down", "outer down"]


def test_settings_come_from_the_environment_and_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text(
        'FASTMCP_PORT=9001\nexport FASTMCP_HOST="0.0.0.0"  # all\n# FASTMCP_DEBUG=1\n'
    )
    monkeypatch.setenv("FASTMCP_PORT", "9002")
    monkeypatch.setenv("FASTMCP_LOG_LEVEL", "debug")
    found = Settings()
    assert (found.port, found.host, found.log_level, found.debug) == (9002, "0.0.0.0", "DEBUG", False)


def test_an_http_api_becomes_a_server_and_its_author_has_a_say() -> None:
    fastapi = pytest.importorskip("fastapi")
    app = fastapi.FastAPI(title="Pets")

    @app.get("/pets/{number}", operation_id="get_pet", tags=["pets"])
    def get_pet(number: int) -> dict[str, Any]:
        return {"number": number}

    @app.post("/pets", operation_id="add_pet")
    def add_pet(name: str) -> dict[str, Any]:
        return {"name": name}

    @app.get("/secret", operation_id="secret")
    def secret() -> str:
        return "hush"

    def change(route: HTTPRoute, component: Any) -> None:
        component.description = f"{route.method} {route.path}"

    mcp = FastMCP.from_fastapi(
        app,
        route_maps=[RouteMap(pattern=r"^/secret", mcp_type=MCPType.EXCLUDE)],
        mcp_names={"add_pet": "new_pet"},
        mcp_component_fn=change,
    )

    async def conversation() -> None:
        async with Client(mcp) as client:
            shown = {one.name: one for one in await client.list_tools()}
            assert set(shown) == {"get_pet", "new_pet"}
            assert shown["get_pet"].description == "GET /pets/{number}"
            result = await client.call_tool("get_pet", {"number": 3})
            assert result.structured_content == {"number": 3}
            assert (await client.call_tool("new_pet", {"name": "Rex"})).structured_content == {"name": "Rex"}

    asyncio.run(conversation())


def test_settings_are_found_through_their_module_too() -> None:
    module = importlib.import_module("dovetail.compat.fastmcp.settings")
    assert module.log_level == module.settings.log_level
    with pytest.raises(AttributeError):
        assert module.no_such_setting


def test_middleware_shows_tools_of_its_own() -> None:
    def shout(text: str) -> str:
        return text.upper()

    injected = ToolInjectionMiddleware([Tool.from_function(shout)])
    mcp = FastMCP("few", middleware=[injected, PromptToolMiddleware(), ResourceToolMiddleware()])
    mcp.tool(shout, name="plain")
    mcp.prompt(lambda who: f"Hello {who}", name="greet")
    mcp.resource("notes://one", name="one")(lambda: "a note")

    async def conversation() -> None:
        async with Client(mcp) as client:
            assert [one.name for one in await client.list_tools()] == [
                "shout", "list_prompts", "get_prompt", "list_resources", "read_resource", "plain",
            ]  # fmt: skip
            assert await text(client, "shout", text="a") == await text(client, "plain", text="a") == "A"
            assert '"name":"greet"' in await text(client, "list_prompts")
            said = await client.call_tool("get_prompt", {"name": "greet", "arguments": {"who": "Ada"}})
            assert '"text":"Hello Ada"' in said.content[0].text
            assert '"uri":"notes://one"' in await text(client, "list_resources")
            assert '"content":"a note"' in await text(client, "read_resource", uri="notes://one")

    asyncio.run(conversation())
