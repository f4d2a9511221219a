"""What Dovetail offers the other clients."""

import sys
from dataclasses import dataclass

from dovetail import Context, Server

server = Server("interop", version="1.0.0")


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
async def touch() -> str:
    """Change the note."""
    await server.notify_resource_updated("interop://note")
    return "touched"


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
    if sys.argv[1] == "stdio":
        server.run()
    else:
        server.run("http", host="127.0.0.1", port=int(sys.argv[2]), quiet=True)
