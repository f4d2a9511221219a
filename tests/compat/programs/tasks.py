"""A tool that runs as a task alone, and asks in the middle of it: SDK 1.x, low level."""

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

server = Server("tasks")
server.experimental.enable_tasks()
SCHEMA = {"type": "object", "properties": {"value": {"type": "integer"}}, "required": ["value"]}


@server.list_tools()
async def list_tools():
    execution = types.ToolExecution(taskSupport="required")
    return [types.Tool(name="long", inputSchema={"type": "object"}, execution=execution)]


@server.call_tool()
async def call_tool(name, arguments):
    async def work(task):
        answer = await task.elicit(message="how many?", requestedSchema=SCHEMA)
        text = f"done {answer.content['value']}"
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    return await server.request_context.experimental.run_task(work)


async def main():
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
