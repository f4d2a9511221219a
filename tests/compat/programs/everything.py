"""A server that uses all a client can be asked for. It runs on every original library."""

import sys
from contextlib import asynccontextmanager

import anyio
from mcp import types
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

try:
    from fastmcp import Context, FastMCP
except ImportError:
    try:
        from mcp.server.fastmcp import Context, FastMCP
    except ImportError:
        from mcp.server import MCPServer as FastMCP
        from mcp.server.mcpserver import Context

print("printed while it is imported")


class Answer(BaseModel):
    value: int


@asynccontextmanager
async def lifespan(server):
    print("lifespan begins", file=sys.stderr, flush=True)
    yield {"unit": "m"}
    print("lifespan ends", file=sys.stderr, flush=True)


mcp = FastMCP("everything", instructions="Try it.", lifespan=lifespan)
calls = []
stopped = anyio.Event()
waiting = anyio.Event()


@mcp.tool()
async def add(a: int, b: int) -> int:
    print("printed in a call")
    return a + b


@mcp.tool()
async def elicit(ctx: Context, question: str) -> str:
    calls.append(question)
    result = await ctx.elicit(question, Answer)
    return f"{question} {result.action} {result.data.value} {calls.count(question)}"


@mcp.tool()
async def sample(ctx: Context, question: str) -> str:
    calls.append(question)
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=question))
    result = await ctx.session.create_message(messages=[message], max_tokens=10)
    return f"{result.content.text} {calls.count(question)}"


@mcp.tool()
async def roots(ctx: Context) -> str:
    return " ".join(str(root.uri) for root in (await ctx.session.list_roots()).roots)


@mcp.tool()
async def report(ctx: Context) -> str:
    await ctx.info("in the middle")
    await ctx.report_progress(1, 2)
    return "reported"


@mcp.tool()
async def wait() -> str:
    waiting.set()
    try:
        await anyio.sleep_forever()
    finally:
        stopped.set()


@mcp.tool()
async def has_begun_to_wait() -> bool:
    await waiting.wait()
    return True


@mcp.tool()
async def was_stopped() -> bool:
    await stopped.wait()
    return True


@mcp.tool()
async def leave() -> str:
    sys.exit(7)


class Crash(BaseException):
    """What no library catches."""


@mcp.tool()
async def crash() -> str:
    raise Crash


@mcp.tool()
async def fail() -> str:
    raise ValueError("as meant")


@mcp.tool()
async def header(ctx: Context, name: str) -> str:
    request = ctx.request_context.request
    return "no request" if request is None else request.headers.get(name, "none")


@mcp.tool()
async def client(ctx: Context) -> str:
    params = ctx.session.client_params
    info = getattr(params, "clientInfo", None) or params.client_info
    return info.name


@mcp.tool()
async def grow(ctx: Context, name: str) -> str:
    """Add a tool, and tell clients."""

    async def grown() -> str:
        return name

    if hasattr(mcp, "add_tool") and mcp.__class__.__module__.startswith("mcp."):
        mcp.add_tool(grown, name=name)
    else:
        mcp.tool(grown, name=name)
    await ctx.session.send_tool_list_changed()
    return "grown"


@mcp.resource("note://first")
def first() -> str:
    return "a note"


@mcp.resource("note://by/{name}")
def note(name: str) -> str:
    return f"a note by {name}"


@mcp.prompt()
def greet(name: str) -> str:
    return f"Greet {name}."


@mcp.custom_route("/hello", methods=["GET"])
async def hello(request: Request) -> Response:
    return PlainTextResponse("hello")


if __name__ == "__main__":
    mcp.run()
