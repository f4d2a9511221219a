"""A server whose author knows what its libraries look like inside, and changes it."""

import functools
import inspect
from typing import Any

import mcp.types as types
from fastmcp import Context, FastMCP
from mcp.server.fastmcp import FastMCP as SdkFastMCP


class Own(FastMCP):
    def __init__(self, name: str) -> None:
        self.calls: list[str] = []  # before the library knows of it
        super().__init__(name)
        self.ready = True

    def http_app(self, *args: Any, **options: Any) -> Any:
        self.calls.append("http_app")
        return super().http_app(*args, **options)


class SdkOwn(SdkFastMCP):
    def __init__(self, name: str) -> None:
        self.seen: list[str] = []
        super().__init__(name)

    def streamable_http_app(self) -> Any:
        self.seen.append("streamable_http_app")
        return super().streamable_http_app()

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        self.seen.append(name)
        return await super().call_tool(name, arguments)


mcp = Own("patched")
sdk = SdkOwn("patched")


def counting(server: Any, log: list[str], register: Any) -> None:
    """Replace ``server.tool`` by a function that records and wraps registrations."""
    plain = server.tool

    def tool(**options: Any) -> Any:
        def decorate(function: Any) -> Any:
            @functools.wraps(function)
            async def wrapped(*given: Any, **named: Any) -> Any:
                log.append(f"called {function.__name__}")
                found = function(*given, **named)
                return await found if inspect.isawaitable(found) else found

            log.append(f"registered {function.__name__}")
            return register(plain, wrapped, options)

        return decorate

    server.tool = tool


counting(mcp, mcp.calls, lambda tool, function, options: tool(function, **options))
counting(sdk, sdk.seen, lambda tool, function, options: tool(**options)(function))


@mcp.tool()
def shout(text: str) -> str:
    return text.upper()


@mcp.tool()
async def visits(ctx: Context) -> int:
    ctx.session.visits = getattr(ctx.session, "visits", 0) + 1
    return ctx.session.visits


@sdk.tool()
def whisper(text: str) -> str:
    return text.lower()


def without(function: Any, hidden: str) -> Any:
    """``function`` with ``hidden`` filled in, and gone from its signature."""

    @functools.wraps(function)
    async def filled(**given: Any) -> Any:
        return function(**given, **{hidden: "secret"})

    signature = inspect.signature(function)
    kept = [one for name, one in signature.parameters.items() if name != hidden]
    filled.__signature__ = signature.replace(parameters=kept)
    filled.__annotations__ = {name: kind for name, kind in function.__annotations__.items() if name != hidden}
    return filled


def find(query: str, limit: int = 3, key: str = "") -> str:
    return f"{query} {limit} {key}"


mcp.tool()(without(find, "key"))
sdk.tool()(without(find, "key"))


def louder(server: Any) -> None:
    """Put an own handler around the one that calls tools."""
    handlers = server._mcp_server.request_handlers
    plain = handlers[types.CallToolRequest]

    async def call(request: Any) -> Any:
        result = await plain(request)
        for block in result.root.content:
            block.text += "!"
        return types.ServerResult(result.root)

    handlers[types.CallToolRequest] = call


def fewer(server: Any, name: str) -> None:
    """List what the library lists, without ``name``."""
    handlers = server._mcp_server.request_handlers
    plain = handlers[types.ListToolsRequest]

    async def listed(request: Any) -> Any:
        result = await plain(request)
        result.root.tools = [one for one in result.root.tools if one.name != name]
        return result

    handlers[types.ListToolsRequest] = listed


louder(mcp)
louder(sdk)
fewer(mcp, "visits")
sdk._mcp_server.version = "7.0"
del sdk._tool_manager._tools["whisper"]
