"""Resources, templates and prompts: listing, and conversion of values."""

import json
from typing import Any

from mcp.server.fastmcp import Context, FastMCP
from mcp.server.fastmcp.prompts.base import AssistantMessage, Message, UserMessage
from mcp.types import Annotations
from pydantic import Field

mcp = FastMCP("resources")


@mcp.resource("config://app")
def config() -> str:
    """The configuration."""
    return "a=1"


@mcp.resource("data://json", name="Data", title="The data", mime_type="application/json")
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


@mcp.resource("data://annotated", annotations=Annotations(audience=["user"], priority=0.5), meta={"own": 1})
def annotated() -> str:
    return "x"


@mcp.resource("users://{user_id}/profile")
def profile(user_id: int) -> dict:
    """A profile."""
    return {"id": user_id}


@mcp.resource("files://{path}", name="files", mime_type="text/markdown")
async def files(path: str, ctx: Context) -> str:
    return f"{path} {ctx is not None}"


@mcp.prompt()
def ask(topic: str) -> str:
    """Ask about a topic."""
    return f"Tell me about {topic}"


@mcp.prompt("named", description="Has a name")
def other(first: str = Field(description="the first"), second: str = "b") -> list[Message]:
    return [UserMessage(f"{first} {second}"), AssistantMessage("Sure")]


@mcp.prompt()
async def typed(numbers: list[int], count: int = 3, ctx: Context | None = None) -> str:
    return f"{numbers} {count}"


@mcp.prompt(title="With a title")
def several() -> list:
    return ["one", AssistantMessage("two"), {"role": "user", "content": "three"}]


CALLS = []
READS = [
    "config://app", "data://json", "data://text-json", "data://bytes", "data://bytes-plain", "data://annotated",
    "users://7/profile", "users://x/profile", "files://c.txt", "unknown://x",
]  # fmt: skip
PROMPTS = [
    ("ask", {"topic": "cats"}), ("ask", None), ("ask", {"topic": "a", "other": "b"}), ("named", {"first": "a"}),
    ("typed", {"numbers": "[1, 2]", "count": "4"}), ("typed", {"numbers": "x"}), ("several", None), ("nothing", {}),
]  # fmt: skip
