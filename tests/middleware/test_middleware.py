"""Middleware as people write them: functions and classes, around servers and clients."""

import logging
from typing import Any

import pytest
from msgspec.structs import replace

from dovetail import Client, ProtocolError, Refusal, Server
from dovetail.middleware import Middleware
from dovetail.model import CallToolResult, TextContent
from tests.support.aio import run
from tests.support.peer import LEGACY, MODERN, Peer


def shop(*middleware: Any) -> Server:
    server = Server("shop", middleware=middleware)

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.resource("shop://stock")
    def stock() -> str:
        return "3"

    @server.prompt
    def order(item: str) -> str:
        return f"order {item}"

    @server.completion(ref="order", argument="item")
    def items(value: str) -> list[str]:
        return [value + "s"]

    return server


class Noting(Middleware):
    """Writes down which of its methods ran."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self.name, self.seen = name, seen

    async def message(self, request: Any, call_next: Any) -> Any:
        self.seen.append(f"{self.name} message {request.method}")
        return await call_next(request)

    async def _noted(self, operation: str, request: Any, call_next: Any) -> Any:
        self.seen.append(f"{self.name} {operation}")
        return await call_next(request)

    async def call_tool(self, request: Any, call_next: Any) -> Any:
        return await self._noted("call_tool", request, call_next)

    async def list_tools(self, request: Any, call_next: Any) -> Any:
        return await self._noted("list_tools", request, call_next)

    async def read_resource(self, request: Any, call_next: Any) -> Any:
        return await self._noted("read_resource", request, call_next)

    async def list_resources(self, request: Any, call_next: Any) -> Any:
        return await self._noted("list_resources", request, call_next)

    async def get_prompt(self, request: Any, call_next: Any) -> Any:
        return await self._noted("get_prompt", request, call_next)

    async def list_prompts(self, request: Any, call_next: Any) -> Any:
        return await self._noted("list_prompts", request, call_next)

    async def complete(self, request: Any, call_next: Any) -> Any:
        return await self._noted("complete", request, call_next)

    async def initialize(self, request: Any, call_next: Any) -> Any:
        return await self._noted("initialize", request, call_next)

    async def discover(self, request: Any, call_next: Any) -> Any:
        return await self._noted("discover", request, call_next)

    async def subscribe(self, request: Any, call_next: Any) -> Any:
        return await self._noted("subscribe", request, call_next)

    def notification(self, notice: Any, call_next: Any) -> None:
        self.seen.append(f"{self.name} notification {notice.method}")
        call_next(notice)


async def use(server: Server, revision: str) -> None:
    """Everything a client does, once."""
    async with Client(server, revision=revision, on_roots=[]) as client:
        await client.list_tools()
        assert (await client.call_tool("echo", {"text": "hi"})).data == "hi"
        await client.list_resources()
        await client.list_resource_templates()
        assert (await client.read_resource("shop://stock")).contents[0].text == "3"
        await client.list_prompts()
        await client.get_prompt("order", {"item": "tea"})
        await client.complete("order", "item", "te")
        await client.subscribe_resource("shop://stock")


OPERATIONS = [
    "list_tools", "call_tool", "list_resources", "list_resources", "read_resource", "list_prompts", "get_prompt",
    "complete", "subscribe",
]  # fmt: skip


@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
@run
async def test_every_operation_passes_its_method_and_message(revision: str) -> None:
    seen: list[str] = []
    await use(shop(Noting("a", seen)), revision)
    operations = [line.split()[1] for line in seen if " message " not in line and "notification" not in line]
    first = "discover" if revision == MODERN else "initialize"
    assert operations == [first, *OPERATIONS]
    assert sum(" message " in line for line in seen) == len(operations)
    if revision != MODERN:
        assert "a notification notifications/initialized" in seen


@run
async def test_the_first_layer_written_is_the_outermost() -> None:
    seen: list[str] = []

    def between(call_next: Any) -> Any:
        async def wrapped(request: Any) -> Any:
            seen.append("function")
            return await call_next(request)

        return wrapped

    server = shop(Noting("a", seen), between, Noting("b", seen))
    assert await Peer(server).text("echo", text="x") == "x"
    assert seen == ["a message tools/call", "a call_tool", "function", "b message tools/call", "b call_tool"]


class Loud(Middleware):
    """Changes what goes in and what comes out."""

    async def call_tool(self, request: Any, call_next: Any) -> Any:
        assert request.arguments["text"] != "inside"
        result = await call_next(request.with_arguments({"text": "inside"}))
        assert isinstance(result, CallToolResult)
        return replace(result, content=[TextContent(result.content[0].text.upper())])  # type: ignore[union-attr]


@pytest.mark.parametrize("revision", [*LEGACY, MODERN])
@run
async def test_a_layer_may_change_the_call_and_its_result(revision: str) -> None:
    assert await Peer(shop(Loud()), revision).text("echo", text="outside") == "INSIDE"


class Refusing(Middleware):
    async def call_tool(self, request: Any, call_next: Any) -> Any:
        raise Refusal(1008, hint="we are closed", retry_after=60)


class Broken(Middleware):
    async def message(self, request: Any, call_next: Any) -> Any:
        raise ZeroDivisionError("the secret of the middleware")

    def notification(self, notice: Any, call_next: Any) -> None:
        raise ZeroDivisionError("the secret of the middleware")


@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
@run
async def test_a_layer_may_refuse(revision: str) -> None:
    async with Client(shop(Refusing()), revision=revision) as client:
        with pytest.raises(Refusal) as refused:
            await client.call_tool("echo", {"text": "x"})
        assert (refused.value.code, refused.value.hint) == (1008, "we are closed")
        assert refused.value.retry_after == 60


@run
async def test_a_layer_that_raises_is_masked_and_the_next_call_is_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = Broken()
    server = shop(broken)
    with caplog.at_level(logging.ERROR, "dovetail"):
        reply = await server.handle(
            b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', {"revision": "2025-06-18"}
        )
        note = b'{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}'
        assert await server.handle(note, {"revision": "2025-06-18"}) is None
    assert reply is not None
    assert b"-32603" in reply
    assert b"secret" not in reply
    assert "middleware failed notification=notifications/roots/list_changed middleware=Broken" in caplog.text


@pytest.mark.parametrize("wrong", [Noting, "rate", 3])
def test_what_is_no_layer_is_said_at_once(wrong: Any) -> None:
    with pytest.raises(TypeError, match="middleware must be a Middleware instance"):
        shop(wrong)


class Knowing(Middleware):
    def __init__(self) -> None:
        self.attached: list[Any] = []

    def attach(self, service: Any) -> None:
        self.attached.append(service)


def test_a_layer_is_attached_once_to_its_server() -> None:
    middleware = Knowing()
    server = shop(middleware)
    assert middleware.attached == [server]
    assert server.middleware == (middleware,)


def test_middleware_without_hooks_costs_no_step_of_the_pipeline() -> None:
    assert shop(Knowing()).dispatcher.pipeline.enter is None
    assert shop(Noting("a", [])).dispatcher.pipeline.enter is not None


# --- the same on the client ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
@run
async def test_a_clients_calls_pass_its_middleware(revision: str) -> None:
    seen: list[str] = []
    middleware = [Noting("a", seen), Loud()]
    async with Client(shop(), revision=revision, middleware=middleware, cache=False) as client:
        assert (await client.call_tool("echo", {"text": "hi"})).text == "INSIDE"
        assert len(await client.list_tools()) == 1
        await client.read_resource("shop://stock")
    assert [line for line in seen if " message " not in line] == [
        "a call_tool",
        "a list_tools",
        "a read_resource",
    ]


class Answering(Middleware):
    """Never asks the server."""

    async def call_tool(self, request: Any, call_next: Any) -> Any:
        assert request.call.scope["side"] == "client"
        return CallToolResult([TextContent(f"no need for {request.name}")])


@run
async def test_a_clients_layer_may_answer_itself_or_add_metadata() -> None:
    class Tracing(Middleware):
        async def message(self, request: Any, call_next: Any) -> Any:
            return await call_next(replace(request, call=replace(request.call, meta={"x/trace": "t1"})))

    metas: list[Any] = []

    def look(call_next: Any) -> Any:
        async def wrapped(request: Any) -> Any:
            metas.append(request.call.meta.get("x/trace"))
            return await call_next(request)

        return wrapped

    async with Client(shop(look), middleware=[Answering()]) as client:
        assert (await client.call_tool("echo", {"text": "x"})).text == "no need for echo"
    async with Client(shop(look), middleware=[Tracing()]) as client:
        await client.call_tool("echo", {"text": "x"})
    assert metas == [None, None, "t1"]


@run
async def test_a_clients_middleware_receives_notifications() -> None:
    seen: list[str] = []
    server = shop()
    async with Client(server, revision="2025-06-18", middleware=[Noting("a", seen)]) as client:
        server.add_tool(lambda: 1, name="new")
        await client.list_tools()
    assert "a notification notifications/tools/list_changed" in seen


@run
async def test_what_a_clients_layer_raises_reaches_the_caller() -> None:
    class Never(Middleware):
        async def call_tool(self, request: Any, call_next: Any) -> Any:
            raise ProtocolError("tool_not_allowed", "not from here")

    async with Client(shop(), middleware=[Never()]) as client:
        with pytest.raises(ProtocolError, match="not from here"):
            await client.call_tool("echo", {"text": "x"})
