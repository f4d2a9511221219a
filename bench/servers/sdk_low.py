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
COUNT = int(os.environ.get("BENCH_TOOLS", "6"))
TOOLS += [
    types.Tool(name=f"filler_{number}", description="One of many.", inputSchema=schema(text=TEXT))
    for number in range(COUNT - len(TOOLS))
]
del TOOLS[COUNT:]
CONSENT = schema(ok={"type": "boolean"})


async def echo(ctx, arguments):
    return arguments["text"]


async def add(ctx, arguments):
    return {"sum": arguments["a"] + arguments["b"]}


async def nested(ctx, arguments):
    return str(sum(line["count"] for line in arguments["order"]["lines"]))


async def tell(ctx, arguments):
    await ctx.session.report_progress(1, 1)
    return arguments["text"]


async def ask(ctx, arguments, responses):
    if ctx.protocol_version != "2026-07-28":
        answer = await ctx.session.elicit_form("Shall I?", CONSENT, related_request_id=ctx.request_id)
    elif not responses:
        params = types.ElicitRequestFormParams(message="Shall I?", requested_schema=CONSENT)
        return types.InputRequiredResult(
            input_requests={"ok": types.ElicitRequest(params=params)}, request_state="asked"
        )
    else:
        answer = responses["ok"]
    return "yes" if answer.action == "accept" and answer.content["ok"] else "no"


async def nap(ctx, arguments):
    await asyncio.sleep(arguments["seconds"])
    return "rested"


HANDLERS = {"echo": echo, "add": add, "nested": nested, "tell": tell, "nap": nap}


async def list_tools(ctx, params):
    return types.ListToolsResult(tools=TOOLS)


async def call_tool(ctx, params):
    arguments = params.arguments or {}
    if params.name == "ask":
        value = await ask(ctx, arguments, params.input_responses)
        if isinstance(value, types.InputRequiredResult):
            return value
    else:
        value = await HANDLERS.get(params.name, echo)(ctx, arguments)
    if isinstance(value, str):
        return types.CallToolResult(content=[types.TextContent(type="text", text=value)])
    text = str(value).replace("'", '"')
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structuredContent=value)


async def list_resources(ctx, params):
    return types.ListResourcesResult(resources=[types.Resource(name="text", uri="bench://text")])


async def read_resource(ctx, params):
    contents = types.TextResourceContents(uri="bench://text", mimeType="text/plain", text="some text")
    return types.ReadResourceResult(contents=[contents])


async def list_prompts(ctx, params):
    argument = types.PromptArgument(name="name", required=True)
    return types.ListPromptsResult(prompts=[types.Prompt(name="greet", arguments=[argument])])


async def get_prompt(ctx, params):
    text = types.TextContent(type="text", text=f"Say hello to {params.arguments['name']}.")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=text)])


server = Server(
    "bench",
    version="1.0.0",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_read_resource=read_resource,
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
)


async def over_stdio():
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        anyio.run(over_stdio)
    else:
        app = server.streamable_http_app(max_sessions=None)
        uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error")
