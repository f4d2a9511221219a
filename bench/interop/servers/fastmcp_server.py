"""What FastMCP offers our client. It serves no subscriptions; on 2026-07-28 tools return their questions themselves."""

import sys
import warnings

import mcp_types as types
from fastmcp import Context, FastMCP

warnings.simplefilter("ignore")
server = FastMCP("interop", version="1.0.0")
CONSENT = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
THOUGHT = types.SamplingMessage(
    role="user", content=types.TextContent(type="text", text="Think of something.")
)


def modern(ctx: Context) -> bool:
    return ctx.session.protocol_version == "2026-07-28"


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
async def ask(ctx: Context) -> str | types.InputRequiredResult:
    """Ask the user for consent."""
    if modern(ctx):
        if not ctx.input_responses:
            params = types.ElicitRequestFormParams(message="Shall I?", requested_schema=CONSENT)
            return types.InputRequiredResult(
                input_requests={"ok": types.ElicitRequest(params=params)}, request_state="asked"
            )
        answer = ctx.input_responses["ok"]
    else:
        answer = await ctx.session.elicit_form("Shall I?", CONSENT)
    return "yes" if answer.action == "accept" and answer.content["ok"] else "no"


@server.tool
async def think(ctx: Context) -> str | types.InputRequiredResult:
    """Ask the user's model for a thought."""
    if modern(ctx):
        if not ctx.input_responses:
            params = types.CreateMessageRequestParams(messages=[THOUGHT], max_tokens=50)
            return types.InputRequiredResult(input_requests={"it": types.CreateMessageRequest(params=params)})
        return ctx.input_responses["it"].content.text
    return (await ctx.session.create_message([THOUGHT], max_tokens=50)).content.text


@server.resource("interop://note", mime_type="text/plain")
async def note() -> str:
    return "a note"


@server.prompt
async def greet(name: str) -> str:
    return f"Say hello to {name}."


@server.completion
async def names(ref, argument, context):
    return [name for name in ("Ada", "Alan", "Grace") if name.startswith(argument.value)]


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run(show_banner=False)
    else:
        server.run(sys.argv[1], host="127.0.0.1", port=int(sys.argv[2]), show_banner=False, log_level="error")
