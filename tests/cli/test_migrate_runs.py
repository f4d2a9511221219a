"""Programs in the style of real ones, run on their original library, then migrated: both answer the same."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from bench import peers

from dovetail import Client
from dovetail.cli.main import main
from tests.peers.environment import need
from tests.support.aio import run

PROGRAMS: dict[str, tuple[str, list[tuple[str, dict[str, Any]]]]] = {
    "calculator": ("""
from mcp.server.fastmcp import FastMCP

mcp = FastMCP("calculator")

@mcp.tool()
def add(a: int, b: int) -> int:
    \"\"\"Add two numbers.\"\"\"
    return a + b

@mcp.tool()
async def divide(a: float, b: float = 2.0) -> float:
    \"\"\"Divide a number.\"\"\"
    return a / b

if __name__ == "__main__":
    mcp.run()
""", [("add", {"a": 1, "b": 2}), ("divide", {"a": 9.0}), ("add", {"a": 1})]),
    "notes": ("""
from fastmcp import FastMCP

mcp = FastMCP(name="notes", instructions="Keeps notes.")
NOTES: dict[str, str] = {"first": "hello"}

@mcp.tool
def save(title: str, text: str) -> str:
    \"\"\"Keep a note.\"\"\"
    NOTES[title] = text
    return f"kept {title}"

@mcp.tool(name="titles", description="All titles.")
def list_titles() -> list[str]:
    return sorted(NOTES)

@mcp.resource("note://{title}")
def read(title: str) -> str:
    \"\"\"One note.\"\"\"
    return NOTES[title]

@mcp.prompt
def summarize(topic: str) -> str:
    \"\"\"Summarize.\"\"\"
    return f"Summarize all about {topic}."

if __name__ == "__main__":
    mcp.run()
""", [("save", {"title": "a", "text": "b"}), ("titles", {})]),
    "documented": ("""
from typing import Annotated, Literal

from pydantic import Field
from mcp.server.fastmcp import FastMCP
from mcp.types import ToolAnnotations

mcp = FastMCP("documented", instructions="Knows weather.")

@mcp.tool(title="Weather", annotations=ToolAnnotations(readOnlyHint=True, openWorldHint=False))
def weather(
    city: Annotated[str, Field(description="Which city", min_length=2)],
    units: Literal["c", "f"] = "c",
    days: Annotated[int, Field(ge=1, le=7)] = 1,
) -> str:
    \"\"\"The weather of a city.\"\"\"
    return f"{city} {units} {days}"

if __name__ == "__main__":
    mcp.run(transport="stdio")
""", [("weather", {"city": "Oslo"}), ("weather", {"city": "Oslo", "units": "f", "days": 3})]),
    "typed": ("""
from pydantic import BaseModel
from fastmcp import FastMCP

class Point(BaseModel):
    x: int
    y: int = 0

mcp = FastMCP("typed")

@mcp.tool
def mirror(point: Point) -> Point:
    \"\"\"Mirror a point.\"\"\"
    return Point(x=-point.x, y=-point.y)

@mcp.tool()
def table(names: list[str], scale: float = 1.5) -> dict[str, float]:
    \"\"\"A number for each name.\"\"\"
    return {name: len(name) * scale for name in names}

if __name__ == "__main__":
    mcp.run()
""", [("mirror", {"point": {"x": 1, "y": 2}}), ("table", {"names": ["a", "bb"]})]),
    "lifespan": ("""
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mcp.server.fastmcp import Context, FastMCP

@dataclass
class App:
    greeting: str

@asynccontextmanager
async def life(server):
    yield App("hello")

mcp = FastMCP("lifespan", lifespan=life)

@mcp.tool()
def greet(name: str, ctx: Context) -> str:
    \"\"\"Greet.\"\"\"
    app = ctx.request_context.lifespan_context
    return f"{app.greeting} {name}"

if __name__ == "__main__":
    mcp.run()
""", [("greet", {"name": "Ada"})]),
    "logging": ("""
import asyncio
from fastmcp import Context, FastMCP

mcp = FastMCP("logging")

@mcp.tool
async def work(steps: int, ctx: Context) -> str:
    \"\"\"Work for a while.\"\"\"
    for step in range(steps):
        await ctx.report_progress(step, steps)
        await ctx.info(f"step {step}")
    await ctx.warning("tired")
    return f"{steps} steps"

async def main():
    await mcp.run_async()

if __name__ == "__main__":
    asyncio.run(main())
""", [("work", {"steps": 2})]),
    "errors": ("""
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError

mcp = FastMCP("errors")

@mcp.tool
def order(count: int) -> str:
    \"\"\"Order fruit.\"\"\"
    if count > 9:
        raise ToolError("at most nine")
    return "ordered"

if __name__ == "__main__":
    mcp.run()
""", [("order", {"count": 1}), ("order", {"count": 10})]),
    "images": ("""
from mcp.server.fastmcp import FastMCP, Image

mcp = FastMCP("images")

@mcp.tool()
def dot() -> Image:
    \"\"\"A picture.\"\"\"
    return Image(data=b"not really", format="png")

@mcp.resource("config://app", mime_type="application/json")
def config() -> str:
    return '{"theme": "dark"}'

if __name__ == "__main__":
    mcp.run()
""", [("dot", {})]),
    "mounted": ("""
from fastmcp import FastMCP

inner = FastMCP("inner")

@inner.tool
def shout(text: str) -> str:
    \"\"\"Louder.\"\"\"
    return text.upper()

mcp = FastMCP("outer")

@mcp.tool
def whisper(text: str) -> str:
    \"\"\"Softer.\"\"\"
    return text.lower()

mcp.mount(inner, prefix="in")

if __name__ == "__main__":
    mcp.run()
""", [("whisper", {"text": "Hi"}), ("in_shout", {"text": "Hi"})]),
    "asking": ("""
from pydantic import BaseModel
from mcp.server.fastmcp import Context, FastMCP

class Booking(BaseModel):
    seats: int

mcp = FastMCP("asking")

@mcp.tool()
async def book(ctx: Context) -> str:
    \"\"\"Book a table.\"\"\"
    found = await ctx.elicit("How many?", Booking)
    if found.action == "accept":
        return f"{found.data.seats} seats"
    return "nothing"

if __name__ == "__main__":
    mcp.run()
""", [("book", {})]),
}  # fmt: skip


async def shown(command: list[str], calls: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """What a server in a separate process lists and answers."""
    answer = {"action": "accept", "content": {"seats": 3}}
    options: dict[str, Any] = {"on_elicit": lambda _: answer, "on_stderr": lambda _: None, "validate": "off"}
    async with Client(command, revision="2025-11-25", **options) as client:
        # Theirs declare all kinds, ours those they have something of.
        told, found = client.server_capabilities, dict[str, Any](prompts=[], resources=[], templates=[])
        for tool in msgspec.to_builtins(await client.list_tools()):
            schema = tool["inputSchema"]
            taken = sorted(schema.get("properties", {})), sorted(schema.get("required", ()))
            found[f"tool {tool['name']}"] = [tool.get("description"), tool.get("annotations"), taken]
        if told.has("prompts"):
            found["prompts"] = [(one.name, one.description) for one in await client.list_prompts()]
        if told.has("resources"):
            found["resources"] = [(one.uri, one.mime_type) for one in await client.list_resources()]
            found["templates"] = [one.uri_template for one in await client.list_resource_templates()]
        for name, arguments in calls:
            done = await client.call_tool(name, arguments, check=False)
            # What is wrong with arguments is said in other words; that they are wrong is the same.
            wrong = done.is_error and "at most" not in done.text
            found[f"call {name} {arguments}"] = "failed" if wrong else (
                done.is_error, msgspec.to_builtins(done.content) if not done.text else done.text
            )  # fmt: skip
        return found


@pytest.mark.peer
@pytest.mark.parametrize("name", PROGRAMS)
@run
async def test_a_migrated_program_runs_natively_and_says_the_same(name: str, tmp_path: Path) -> None:
    need("compat-fastmcp3")  # it has mcp 1.x, too
    source, calls = PROGRAMS[name]
    file = tmp_path / "server.py"
    file.write_text(source)
    before = await shown([peers.interpreter("compat-fastmcp3"), str(file)], calls)
    assert await asyncio.to_thread(main, ["migrate", str(file), "--write"]) == 0
    after = await shown([sys.executable, "-m", "dovetail.cli.main", "run", f"{file}:mcp"], calls)
    assert after == before
