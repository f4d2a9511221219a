"""Three families in one file: each server is what its own library makes of it."""

import mcp.types as types
from fastmcp import Context, FastMCP
from mcp.server.fastmcp import Context as SdkContext
from mcp.server.fastmcp import FastMCP as SdkFastMCP
from mcp.server.lowlevel import Server

print("printed while it is imported")

new = FastMCP("new")
old = SdkFastMCP("old")
low = Server("low")


@new.tool(name="who")
def new_who(ctx: Context, values: list[int]) -> list[int]:
    assert ctx.fastmcp is new
    return values


@old.tool(name="who")
def old_who(ctx: SdkContext, values: list[int]) -> list[int]:
    print("printed in the middle of a call")
    assert ctx.fastmcp is old
    return values


@low.list_tools()
async def list_tools() -> list[types.Tool]:
    return [
        types.Tool(name="who", inputSchema={"type": "object", "properties": {"values": {"type": "array"}}})
    ]


@low.call_tool()
async def call_tool(name: str, arguments: dict) -> list[types.TextContent]:
    return [types.TextContent(type="text", text=f"{name} {arguments['values']}")]
