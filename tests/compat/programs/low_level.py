"""A low-level server of the official SDK 1.x or 2.x, with its own main function."""

import sys

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

TOOL = {"name": "double", "inputSchema": {"type": "object", "properties": {"x": {"type": "integer"}}}}


async def listed(*_):
    return [types.Tool.model_validate(TOOL)]


async def called(name, arguments):
    return [
        types.TextContent(type="text", text=f"{name} {2 * arguments['x']} {' '.join(sys.argv[1:])}".strip())
    ]


if hasattr(Server, "list_tools"):
    server = Server("low")
    server.list_tools()(listed)
    server.call_tool()(called)
else:

    async def on_list_tools(context, params):
        return types.ListToolsResult(tools=await listed())

    async def on_call_tool(context, params):
        return types.CallToolResult(content=await called(params.name, params.arguments))

    server = Server("low", on_list_tools=on_list_tools, on_call_tool=on_call_tool)


async def main():
    print("printed before it serves")
    # With custom streams, as programs use to set an encoding: Dovetail serves its own transport anyway.
    async with stdio_server(stdout=anyio.wrap_file(sys.stdout)) as (read, write):
        await server.run(read, write, server.create_initialization_options())
    print("main ends", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(anyio.run(main))
