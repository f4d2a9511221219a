"""Schemas from signatures: Annotated, Field, optional, unions, models, enums, defaults; how arguments are taken."""

import datetime
import enum
from dataclasses import dataclass
from typing import Annotated, Any, Dict, List, Literal, Optional, Union  # noqa: UP035

from fastmcp import Context, FastMCP
from pydantic import BaseModel, Field

mcp = FastMCP("signatures", instructions="Say hello.", version="1.2.3")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    """A point."""

    x: int = Field(description="across")
    y: int = 0


@dataclass
class Box:
    width: float
    label: str = "box"


@mcp.tool
def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: the first
        b: the second
    """
    return a + b


@mcp.tool()
async def described(
    name: Annotated[str, Field(description="who", min_length=1)],
    count: Annotated[int, "how often"] = 1,
    kind: Literal["a", "b"] = "a",
    limit: int = Field(default=5, ge=1, le=10, description="at most"),
    note: Optional[str] = None,  # noqa: UP045
) -> str:
    """Described arguments."""
    return f"{name} {count} {kind} {limit} {note}"


@mcp.tool
def shapes(
    point: Point,
    box: Box,
    color: Color = Color.RED,
    when: Optional[datetime.date] = None,  # noqa: UP045
    many: List[Point] = [],  # noqa: UP006, B006
    table: Dict[str, int] = {},  # noqa: UP006, B006
    either: Union[int, str] = 1,  # noqa: UP007
    anything: Any = None,
) -> str:
    return f"{point} {box} {color} {when} {many} {table} {either!r} {anything!r}"


@mcp.tool
async def with_context(text: str, ctx: Context) -> str:
    """Has a context."""
    return text + type(ctx).__name__[-7:]


@mcp.tool
async def optional_context(text: str, ctx: Context | None = None) -> str:
    return text + str(ctx is not None)


@mcp.tool
def untyped(a, b=3):
    return f"{a!r} {b!r}"


@mcp.tool
def numbers(values: list[int], flag: bool = False, ratio: float = 0.5, data: dict | None = None) -> str:
    return f"{values} {flag} {ratio} {data}"


CALLS = [
    ("add", {"a": 1}),
    ("add", {"a": "3", "b": 4}),
    ("add", {"a": "x"}),
    ("add", {}),
    ("add", {"a": 1, "c": 1}),
    ("add", {"a": 1.0}),
    ("add", {"a": 1.5}),
    ("nothing", {}),
    ("described", {"name": "Ada"}),
    ("described", {"name": "", "limit": 11, "kind": "c"}),
    ("described", {"name": "Ada", "note": None, "count": "2"}),
    ("shapes", {"point": {"x": 1}, "box": {"width": 2}}),
    (
        "shapes",
        {"point": '{"x": 1}', "box": {"width": "2"}, "color": "blue", "when": "2024-05-06", "either": "x"},
    ),
    ("shapes", {"point": {"x": 1}, "box": {"width": 2}, "many": '[{"x": 3}]', "table": '{"a": 1}'}),
    ("with_context", {"text": "a"}),
    ("optional_context", {"text": "a"}),
    ("untyped", {"a": "1"}),
    ("untyped", {"a": [1, "2"], "b": None}),
    ("numbers", {"values": [1, "2"], "flag": "true", "ratio": "1.5"}),
    ("numbers", {"values": "[1, 2]"}),
    ("numbers", {"values": "1"}),
]
