"""A low-level server of the official SDK 1.x or 2.x with a resource that clients can subscribe to."""

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

subscribed = []
TOOLS = [
    types.Tool.model_validate({"name": name, "inputSchema": {"type": "object"}}) for name in ("touch", "all")
]
RESOURCES = [types.Resource(name="a", uri="note://a")]


def content():
    return [types.TextContent(type="text", text=" ".join(subscribed))]


async def on_list_tools(context, params):
    return types.ListToolsResult(tools=TOOLS)


async def on_call_tool(context, params):
    if params.name == "touch":
        await context.session.send_resource_updated("note://a")
    return types.CallToolResult(content=content())


async def on_list_resources(context, params):
    return types.ListResourcesResult(resources=RESOURCES)


async def on_subscribe(context, params):
    subscribed.append(params.uri)
    return types.EmptyResult()


async def on_unsubscribe(context, params):
    subscribed.remove(params.uri)
    return types.EmptyResult()


if hasattr(Server, "list_tools"):
    server = Server("low")

    @server.list_tools()
    async def list_tools():
        return TOOLS

    @server.call_tool()
    async def call_tool(name, arguments):
        if name == "touch":
            await server.request_context.session.send_resource_updated("note://a")
        return content()

    @server.list_resources()
    async def list_resources():
        return RESOURCES

    @server.subscribe_resource()
    async def subscribe(uri):
        subscribed.append(str(uri))

    @server.unsubscribe_resource()
    async def unsubscribe(uri):
        subscribed.remove(str(uri))
else:
    server = Server(
        "low",
        on_list_tools=on_list_tools,
        on_call_tool=on_call_tool,
        on_list_resources=on_list_resources,
        on_subscribe_resource=on_subscribe,
        on_unsubscribe_resource=on_unsubscribe,
    )


async def main():
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
