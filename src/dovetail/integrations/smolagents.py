"""smolagents: the tools of a client as `Tool`.

smolagents runs tools in synchronous code. Load them with `load_tools_sync` and a `dovetail.sync.Client`, or run the
agent in a thread: ``await asyncio.to_thread(agent.run, "…")``. A result is the structured content, an image, or text.
A failed tool raises `ToolError`, whose text the agent shows to the model.
"""

from __future__ import annotations

import io
import keyword
from typing import Any

from ..client import Client
from ..client.calling.results import ToolResult
from ..shapes import is_object
from .remote_tools import RemoteTool, blocking, framework, parts, remote_tools, text_of

smolagents: Any = framework("smolagents", "smolagents")
images: Any = framework("PIL.Image", "pillow")

TYPES = frozenset(("string", "boolean", "integer", "number", "array", "object", "null"))


async def load_tools(client: Client) -> list[Any]:
    """The tools of ``client`` for `CodeAgent` and `ToolCallingAgent`."""
    return [McpTool(tool) for tool in await remote_tools(client, characters="a-zA-Z0-9_")]


load_tools_sync = blocking(load_tools)


class McpTool(smolagents.Tool):
    """A tool of a server."""

    skip_forward_signature_validation = True
    output_type = "any"

    def __init__(self, tool: RemoteTool) -> None:
        self.remote = tool
        self.name = f"_{tool.name}" if tool.name[:1].isdigit() or keyword.iskeyword(tool.name) else tool.name
        self.description = tool.description
        required = tool.input_schema.get("required", ())
        self.inputs = {
            name: _input(schema, name in required) for name, schema in tool.input_schema["properties"].items()
        }
        self.output_schema = tool.output_schema
        super().__init__()  # pyright: ignore[reportUnknownMemberType]

    def forward(self, *values: Any, **arguments: Any) -> Any:
        placed: dict[str, Any] = dict(zip(self.inputs, values, strict=False))
        return _value(self.remote.call_from_thread(placed | arguments))


def _input(schema: Any, required: bool) -> dict[str, Any]:
    """One argument: what smolagents checks of a schema, and the schema itself for the model."""
    known: dict[str, Any] = dict(schema) if is_object(schema) else {}
    kinds = known.get("type", "any")
    several = [kinds] if isinstance(kinds, str) else list(kinds)
    known["type"] = kinds if TYPES.issuperset(several) else "any"
    known.setdefault("description", "see the description of the tool")
    if not required:
        known["nullable"] = True
    return known


def _value(result: ToolResult) -> Any:
    for part in parts(result):
        if part.kind == "image":
            return images.open(io.BytesIO(part.bytes))
    return text_of(result) if result.structured_content is None else result.data
