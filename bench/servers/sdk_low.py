"""The official SDK's low-level server: hand-written schemas, no argument models."""

import asyncio
import os
import sys

import anyio
import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server


def schema(**properties: dict) -> dict:
    return {"type": "object", "properties": properties, "required": list(properties)}


TEXT, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
CUSTOMER = schema(name=TEXT, city=TEXT)
LINES = {"type": "array", "items": schema(sku=TEXT, count=INTEGER)}
TOOLS = [
    types.Tool(name="echo", description="Say it again.", inputSchema=schema(text=TEXT)),
    types.Tool(
        name="add",
        description="Add two numbers.",
        inputSchema=schema(a=INTEGER, b=INTEGER),
        outputSchema=schema(sum=INTEGER),
    ),
    types.Tool(
        name="nested",
        description="Count the pieces of an order.",
        inputSchema=schema(order=schema(customer=CUSTOMER, lines=LINES)),
    ),
    types.Tool(name="tell", description="Report progress once, then answer.", inputSchema=schema(text=TEXT)),
    types.Tool(name="ask", description="Ask the user once.", inputSchema=schema()),
    types.Tool(name="nap", description="Wait, as for a database.", inputSchema=schema(seconds=NUMBER)),
]
TOOLS += [
    types.Tool(name=f"filler_{number}", description="One of many.", inputSchema=schema(text=TEXT))
    for number in range(int(os.environ.get("BENCH_TOOLS", "0")) - 6)
]


async def echo(ctx, arguments):
    return arguments["text"]


async def add(ctx, arguments):
    return {"sum": arguments["a"] + arguments["b"]}


async def nested(ctx, arguments):
    return str(sum(line["count"] for line in arguments["order"]["lines"]))


async def tell(ctx, arguments):
    await ctx.session.report_progress(1, 1)
    return arguments["text"]


async def ask(ctx, arguments):
    answer = await ctx.session.elicit_form("Shall I?", schema(ok={"type": "boolean"}))
    return "yes" if answer.action == "accept" and answer.content["ok"] else "no"


async def nap(ctx, arguments):
    await asyncio.sleep(arguments["seconds"])
    return "rested"


HANDLERS = {"echo": echo, "add": add, "nested": nested, "tell": tell, "ask": ask, "nap": nap}


async def list_tools(ctx, params):
    return types.ListToolsResult(tools=TOOLS)


async def call_tool(ctx, params):
    value = await HANDLERS.get(params.name, echo)(ctx, params.arguments or {})
    if isinstance(value, str):
        return types.CallToolResult(content=[types.TextContent(type="text", text=value)])
    text = str(value).replace("'", '"')
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structuredContent=value)


server = Server("bench", version="1.0.0", on_list_tools=list_tools, on_call_tool=call_tool)


async def over_stdio():
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        anyio.run(over_stdio)
    else:
        app = server.streamable_http_app(max_sessions=None)
        uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error")
