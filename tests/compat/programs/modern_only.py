"""A server that speaks 2026-07-28 and nothing older."""

from dovetail import Context, Server

server = Server("modern", revisions=["2026-07-28"])


@server.tool
async def ask(ctx: Context, question: str) -> str:
    answer = await ctx.elicit(question, int)
    await ctx.report_progress(1, 2)
    return f"{answer.action} {answer.data}"


@server.tool
async def header(ctx: Context) -> str:
    headers = dict(ctx.scope.get("headers") or {})
    value = headers.get("x-who") or headers.get(b"x-who", b"none")
    return value.decode() if isinstance(value, bytes) else value
