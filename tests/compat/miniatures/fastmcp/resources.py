"""Resources, templates and prompts: listing, and conversion of values."""

import json
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.prompts import Message
from pydantic import Field

mcp = FastMCP("resources")


@mcp.resource("config://app")
def config() -> str:
    """The configuration."""
    return "a=1"


@mcp.resource("data://json", name="Data", title="The data", mime_type="application/json", tags={"b", "a"})
async def data() -> dict[str, Any]:
    return {"a": 1, "ä": [1, 2]}


@mcp.resource(uri="data://text-json", mime_type="application/json", description="As text")
def text_json() -> str:
    return json.dumps({"a": 1})


@mcp.resource("data://bytes", mime_type="image/png")
def some_bytes() -> bytes:
    return b"abc"


@mcp.resource("data://bytes-plain")
def bytes_plain() -> bytes:
    return b"abc"


@mcp.resource("data://annotated", annotations={"readOnlyHint": True, "audience": ["user"]}, meta={"own": 1})
def annotated() -> str:
    return "x"


@mcp.resource("data://context")
async def with_context(ctx: Context) -> str:
    return str(ctx.request_id is not None)


@mcp.resource("users://{user_id}/profile")
def profile(user_id: int) -> dict:
    """A profile."""
    return {"id": user_id}


@mcp.resource("files://{path*}", name="files", mime_type="text/markdown")
async def files(path: str, ctx: Context) -> str:
    return f"{path} {ctx is not None}"


@mcp.resource("search://{term}{?limit,page}")
def search(term: str, limit: int = 10, page: int = 1) -> str:
    return f"{term} {limit} {page}"


@mcp.prompt
def ask(topic: str) -> str:
    """Ask about a topic."""
    return f"Tell me about {topic}"


@mcp.prompt("named", description="Has a name", tags={"x"})
def other(first: str = Field(description="the first"), second: str = "b") -> list[Message]:
    return [Message(f"{first} {second}"), Message("Sure", role="assistant")]


@mcp.prompt()
async def typed(numbers: list[int], count: int = 3, ctx: Context | None = None) -> str:
    return f"{numbers} {count}"


@mcp.prompt(title="With a title")
def several() -> list:
    return ["one", Message("two", role="assistant")]


CALLS = []
READS = [
    "config://app", "data://json", "data://text-json", "data://bytes", "data://bytes-plain", "data://annotated",
    "data://context", "users://7/profile", "users://x/profile", "files://a/b/c.txt", "search://cats",
    "search://cats?limit=5&page=2", "unknown://x",
]  # fmt: skip
PROMPTS = [
    ("ask", {"topic": "cats"}), ("ask", None), ("ask", {"topic": "a", "other": "b"}), ("named", {"first": "a"}),
    ("typed", {"numbers": "[1, 2]", "count": "4"}), ("typed", {"numbers": "x"}), ("several", None), ("nothing", {}),
]  # fmt: skip
