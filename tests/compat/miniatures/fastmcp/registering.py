"""Every way to register: bare, called, named by position, as a call with a function, methods, add_tool, removal."""

from typing import Any

from fastmcp import FastMCP
from fastmcp.tools import Tool
from mcp.types import Icon, ToolAnnotations

mcp = FastMCP("registering", website_url="https://example.com", icons=[Icon(src="https://example.com/i.png")])


@mcp.tool
def bare(x: int) -> int:
    return x


@mcp.tool()
def called(x: int) -> int:
    return x


@mcp.tool("by_position", description="Named")
def positional(x: int) -> int:
    """Not shown."""
    return x


@mcp.tool(
    name="by_keyword",
    title="Title",
    description="  Described  ",
    tags={"one", "two"},
    annotations={"readOnlyHint": True, "title": "Annotated"},
    meta={"own": {"a": 1}},
)
def keyword(x: int) -> int:
    return x


@mcp.tool(annotations=ToolAnnotations(destructiveHint=False, idempotentHint=True, openWorldHint=False))
async def annotated(x: int) -> int:
    """Has white space around.

    And a second paragraph.
    """
    return x


def given(x: int) -> int:
    """Given to tool()."""
    return x


mcp.tool(given)
mcp.tool(given, name="given_again")


class Service:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def times(self, x: int) -> int:
        """Multiply."""
        return x * self.factor

    @classmethod
    def of_class(cls, x: int) -> str:
        return cls.__name__ + str(x)

    @staticmethod
    def static(x: int) -> int:
        return x


service = Service(3)
mcp.tool(service.times)
mcp.tool(Service.of_class)
mcp.tool(Service.static, name="static_one")
mcp.add_tool(
    Tool.from_function(given, name="made", description="Made by hand", annotations={"readOnlyHint": True})
)
mcp.tool(lambda x: x, name="anonymous")


@mcp.tool(exclude_args=["secret"])
def excluding(x: int, secret: str = "s") -> str:
    return f"{x}{secret}"


@mcp.tool
def gone() -> str:
    return "gone"


mcp.remove_tool("gone")


@mcp.tool
def twice() -> str:
    return "first"


@mcp.tool(name="twice")
def twice_again() -> str:
    return "second"


def options() -> dict[str, Any]:
    return {}


CALLS = [
    ("bare", {"x": 1}), ("by_position", {"x": 1}), ("by_keyword", {"x": 1}), ("annotated", {"x": 1}),
    ("given", {"x": 1}), ("given_again", {"x": 1}), ("times", {"x": 2}), ("of_class", {"x": 2}),
    ("static_one", {"x": 2}), ("made", {"x": 2}), ("anonymous", {"x": 2}), ("excluding", {"x": 2}),
    ("gone", {}), ("twice", {}),
]  # fmt: skip
