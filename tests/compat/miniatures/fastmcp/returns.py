"""How return values become content and structured content."""

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Union  # noqa: UP035

from fastmcp import FastMCP
from fastmcp.tools.tool import ToolResult
from fastmcp.utilities.types import Audio, File, Image
from mcp.types import EmbeddedResource, ImageContent, TextContent, TextResourceContents
from pydantic import BaseModel
from typing_extensions import TypedDict

mcp = FastMCP(name="returns")


class Point(BaseModel):
    x: int
    y: int = 0


@dataclass
class Box:
    width: float
    label: str = "box"


class Row(TypedDict):
    id: int
    name: str


@mcp.tool
def text() -> str:
    return "hällo\n"


@mcp.tool
def number() -> int:
    return 3


@mcp.tool
def ratio() -> float:
    return 1.0


@mcp.tool
def truth() -> bool:
    return True


@mcp.tool
def nothing() -> None:
    return None


@mcp.tool
def no_annotation():
    return {"a": 1, "b": [1, 2], "c": "ä"}


@mcp.tool
def no_annotation_text():
    return "plain"


@mcp.tool
def no_annotation_list():
    return [1, "b", {"c": 3}]


@mcp.tool
def no_annotation_none():
    return None


@mcp.tool
def a_dict() -> dict:
    return {"a": 1, "when": datetime.date(2024, 1, 2)}


@mcp.tool
def dict_any() -> dict[str, Any]:
    return {"a": [1], "b": None}


@mcp.tool
def Dict_any() -> Dict[str, Any]:  # noqa: UP006
    return {"a": {"b": 1}}


@mcp.tool
def dict_int() -> dict[str, int]:
    return {"a": 1}


@mcp.tool
def list_str() -> list[str]:
    return ["a", "b"]


@mcp.tool
def list_dict() -> List[Dict[str, Any]]:  # noqa: UP006
    return [{"a": 1}, {"b": 2}]


@mcp.tool
def empty_list() -> list[str]:
    return []


@mcp.tool
def bare_list() -> list:
    return [1, "a"]


@mcp.tool
def model() -> Point:
    return Point(x=1)


@mcp.tool
def models() -> list[Point]:
    return [Point(x=1), Point(x=2)]


@mcp.tool
def box() -> Box:
    return Box(2.5)


@mcp.tool
def row() -> Row:
    return {"id": 1, "name": "a"}


@mcp.tool
def maybe(found: bool = False) -> Optional[str]:  # noqa: UP045
    return "x" if found else None


@mcp.tool
def maybe_dict(found: bool = False) -> dict[str, Any] | None:
    return {"x": 1} if found else None


@mcp.tool
def union() -> Union[List[Dict[str, Any]], Dict[str, Any]]:  # noqa: UP006, UP007
    return {"x": 1}


@mcp.tool
def anything() -> Any:
    return {"x": 1}


@mcp.tool
def image() -> Image:
    return Image(data=b"abc", format="png")


@mcp.tool
def audio() -> Audio:
    return Audio(data=b"abc", format="mp3")


@mcp.tool
def file() -> File:
    return File(data=b"abc", format="pdf", name="report")


@mcp.tool
def mixed():
    return ["text", Image(data=b"abc", format="jpeg"), {"a": 1}, 2, TextContent(type="text", text="block")]


@mcp.tool
def images() -> list[Image]:
    return [Image(data=b"abc", format="jpeg"), Image(data=b"d")]


@mcp.tool
def block() -> TextContent:
    return TextContent(type="text", text="block")


@mcp.tool
def blocks() -> list[TextContent | ImageContent]:
    return [
        TextContent(type="text", text="block"),
        ImageContent(type="image", data="YQ==", mimeType="image/png"),
    ]


@mcp.tool
def embedded():
    return EmbeddedResource(
        type="resource", resource=TextResourceContents(uri="file:///a.txt", mimeType="text/plain", text="a")
    )


@mcp.tool
def whole() -> ToolResult:
    return ToolResult(content="said", structured_content={"a": 1})


@mcp.tool
def only_structured() -> ToolResult:
    return ToolResult(structured_content={"a": 1, "b": "ä"})


@mcp.tool
def only_content():
    return ToolResult(content=[TextContent(type="text", text="one"), "two"])


@mcp.tool
def with_meta():
    return ToolResult(content="said", meta={"took": 3})


@mcp.tool(output_schema={"type": "object", "properties": {"a": {"type": "integer"}}})
def own_schema():
    return {"a": 1}


@mcp.tool(output_schema=None)
def no_schema() -> dict[str, int]:
    return {"a": 1}


@mcp.tool
def path() -> Path:
    return Path("/tmp/x")


@mcp.tool
def a_tuple() -> tuple[int, str]:
    return (1, "a")


@mcp.tool
def a_set() -> set[int]:
    return {1}


@mcp.tool
def some_bytes() -> bytes:
    return b"abc"


CALLS = [
    (name, {})
    for name in [
        "text",
        "number",
        "ratio",
        "truth",
        "nothing",
        "no_annotation",
        "no_annotation_text",
        "no_annotation_list",
        "no_annotation_none",
        "a_dict",
        "dict_any",
        "Dict_any",
        "dict_int",
        "list_str",
        "list_dict",
        "empty_list",
        "bare_list",
        "model",
        "models",
        "box",
        "row",
        "maybe",
        "maybe_dict",
        "union",
        "anything",
        "image",
        "audio",
        "file",
        "mixed",
        "images",
        "block",
        "blocks",
        "embedded",
        "whole",
        "only_structured",
        "only_content",
        "with_meta",
        "own_schema",
        "no_schema",
        "path",
        "a_tuple",
        "a_set",
        "some_bytes",
    ]
] + [("maybe", {"found": True}), ("maybe_dict", {"found": True})]
