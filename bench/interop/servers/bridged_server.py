"""The upstream server of the bridge: all features, in one revision only."""

import asyncio
import sys
from dataclasses import dataclass

from dovetail import Context, Server

revision = sys.argv[1]
server = Server("behind", version="1.0.0", revisions=[revision])
ended: list[str] = []


@dataclass
class Consent:
    ok: bool


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
async def ask(ctx: Context) -> str:
    """Ask the user for consent."""
    answer = await ctx.elicit("Shall I?", Consent)
    return "yes" if answer.action == "accept" and answer.data.ok else "no"


@server.tool
async def think(ctx: Context) -> str:
    """Ask the user's model for a thought."""
    return (await ctx.sample("Think of something.", max_tokens=50)).text


@server.tool
async def where(ctx: Context) -> str:
    """Ask where the user works."""
    return " ".join(root.uri for root in await ctx.list_roots())


@server.tool
async def steps(ctx: Context) -> str:
    """Say how far it is."""
    await ctx.report_progress(1, 2)
    return "done"


@server.tool
async def forever() -> str:
    """Never end."""
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("forever")
    return ""


@server.tool
async def endings() -> str:
    """The cancelled calls."""
    return " ".join(ended)


@server.tool
async def touch() -> str:
    """Change the note."""
    await server.notify_resource_updated("interop://note")
    return "touched"


@server.tool
async def grow() -> str:
    """Offer one more tool."""
    server.add_tool(lambda: "new", name="late", description="A tool that came later.")
    return "grown"


@server.tool(task="optional")
async def long(n: int) -> int:
    """Take a while."""
    return n * 2


@server.resource("interop://note", mime_type="text/plain")
async def note() -> str:
    return "a note"


@server.prompt
async def greet(name: str) -> str:
    return f"Say hello to {name}."


@server.completion(ref="greet", argument="name")
async def names(value: str) -> list[str]:
    return [name for name in ("Ada", "Alan", "Grace") if name.startswith(value)]


if __name__ == "__main__":
    if sys.argv[2] == "stdio":
        server.run()
    else:
        server.run("http", host="127.0.0.1", port=int(sys.argv[3]), quiet=True)
