"""FastMCP. On 2026-07-28 its tools have to return their questions themselves."""

import asyncio
import os
import sys

import mcp_types as types
from fastmcp import Context, FastMCP
from fastmcp.tools import Tool
from pydantic import BaseModel

BASIC = ("echo", "add", "nested", "tell", "ask", "nap")
MODERN = "2026-07-28"
CONSENT = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


class Sum(BaseModel):
    sum: int


class Customer(BaseModel):
    name: str
    city: str


class Line(BaseModel):
    sku: str
    count: int


class Order(BaseModel):
    customer: Customer
    lines: list[Line]


class Consent(BaseModel):
    ok: bool


server = FastMCP("bench", version="1.0.0")


@server.tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool
async def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(sum=a + b)


@server.tool
async def nested(order: Order) -> int:
    """Count the pieces of an order."""
    return sum(line.count for line in order.lines)


@server.tool
async def tell(text: str, ctx: Context) -> str:
    """Report progress once, then answer."""
    await ctx.report_progress(1, 1)
    return text


@server.tool
async def ask(ctx: Context) -> str | types.InputRequiredResult:
    """Ask the user once."""
    if ctx.session.protocol_version != MODERN:
        answer = await ctx.elicit("Shall I?", Consent)
        return "yes" if answer.action == "accept" and answer.data.ok else "no"
    if not ctx.input_responses:
        params = types.ElicitRequestFormParams(message="Shall I?", requested_schema=CONSENT)
        return types.InputRequiredResult(
            input_requests={"ok": types.ElicitRequest(params=params)}, request_state="asked"
        )
    answer = ctx.input_responses["ok"]
    return "yes" if answer.action == "accept" and answer.content["ok"] else "no"


@server.tool
async def nap(seconds: float) -> str:
    """Wait, as for a database."""
    await asyncio.sleep(seconds)
    return "rested"


@server.resource("bench://text", mime_type="text/plain")
async def text() -> str:
    return "some text"


@server.prompt
async def greet(name: str) -> str:
    return f"Say hello to {name}."


def have(count: int) -> None:
    """Add tools up to the given number."""
    for name in BASIC[count:]:
        server.local_provider.remove_tool(name)
    for number in range(count - len(BASIC)):

        async def filler(text: str) -> str:
            return text

        server.add_tool(Tool.from_function(filler, name=f"filler_{number}", description="One of many."))


if __name__ == "__main__":
    if "BENCH_TOOLS" in os.environ:
        have(int(os.environ["BENCH_TOOLS"]))
    if "BENCH_BEHIND" in os.environ:
        from fastmcp.server import create_proxy

        server = create_proxy(os.environ["BENCH_BEHIND"], name="bench")
    if sys.argv[1] == "stdio":
        server.run(show_banner=False)
    else:
        server.run("http", host="127.0.0.1", port=int(sys.argv[2]), show_banner=False, log_level="error")
