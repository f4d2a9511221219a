"""What the official SDK offers our client. On 2026-07-28 its tools have to return their questions themselves."""

import sys
import warnings

import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer

warnings.simplefilter("ignore")
server = MCPServer("interop", version="1.0.0", log_level="ERROR")
CONSENT = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
THOUGHT = types.SamplingMessage(
    role="user", content=types.TextContent(type="text", text="Think of something.")
)


@server.tool()
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def ask(ctx: Context) -> str | types.InputRequiredResult:
    """Ask the user for consent."""
    if ctx.protocol_version == "2026-07-28":
        if not ctx.input_responses:
            params = types.ElicitRequestFormParams(message="Shall I?", requested_schema=CONSENT)
            return types.InputRequiredResult(
                input_requests={"ok": types.ElicitRequest(params=params)}, request_state="asked"
            )
        answer = ctx.input_responses["ok"]
    else:
        answer = await ctx.session.elicit_form("Shall I?", CONSENT)
    return "yes" if answer.action == "accept" and answer.content["ok"] else "no"


@server.tool()
async def think(ctx: Context) -> str | types.InputRequiredResult:
    """Ask the user's model for a thought."""
    if ctx.protocol_version == "2026-07-28":
        if not ctx.input_responses:
            params = types.CreateMessageRequestParams(messages=[THOUGHT], max_tokens=50)
            return types.InputRequiredResult(input_requests={"it": types.CreateMessageRequest(params=params)})
        return ctx.input_responses["it"].content.text
    return (await ctx.session.create_message([THOUGHT], max_tokens=50)).content.text


@server.tool()
async def touch(ctx: Context) -> str:
    """Change the note."""
    if ctx.protocol_version == "2026-07-28":
        await ctx.notify_resource_updated("interop://note")
    else:
        await ctx.session.send_resource_updated("interop://note")
    return "touched"


@server.resource("interop://note", mime_type="text/plain")
async def note() -> str:
    return "a note"


@server.prompt()
async def greet(name: str) -> str:
    return f"Say hello to {name}."


@server.completion()
async def names(ref, argument, context):
    return types.Completion(
        values=[name for name in ("Ada", "Alan", "Grace") if name.startswith(argument.value)]
    )


async def subscribe(ctx, params) -> types.EmptyResult:
    return types.EmptyResult()


# Its high-level server does not implement legacy subscriptions.
for method in ("resources/subscribe", "resources/unsubscribe"):
    server._lowlevel_server.add_request_handler(method, types.SubscribeRequestParams, subscribe)

if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run()
    elif sys.argv[1] == "sse":
        server.run("sse", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
