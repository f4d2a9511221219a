"""Every way to register with the SDK's class."""

from mcp.server.fastmcp import FastMCP
from mcp.types import Icon, ToolAnnotations

mcp = FastMCP(
    "registering",
    instructions="Hi",
    website_url="https://example.com",
    icons=[Icon(src="https://example.com/i.png")],
)


@mcp.tool()
def called(x: int) -> int:
    return x


@mcp.tool("by_position", description="Named")
def positional(x: int) -> int:
    """Not shown."""
    return x


@mcp.tool(
    name="by_keyword", title="Title", description="Described", annotations=ToolAnnotations(readOnlyHint=True)
)
def keyword(x: int) -> int:
    return x


@mcp.tool(
    meta={"own": 1}, icons=[Icon(src="https://example.com/t.png", mimeType="image/png", sizes=["48x48"])]
)
async def annotated(x: int) -> int:
    """Has white space around.

    And a second paragraph.
    """
    return x


def given(x: int) -> int:
    """Given to add_tool()."""
    return x


mcp.add_tool(given)
mcp.add_tool(given, name="given_again", description="Again", annotations=ToolAnnotations(title="T"))


class Service:
    def times(self, x: int) -> int:
        """Multiply."""
        return x * 3


mcp.add_tool(Service().times)
mcp.add_tool(lambda x: x, name="anonymous")


@mcp.tool()
def gone() -> str:
    return "gone"


mcp.remove_tool("gone")


@mcp.tool()
def twice() -> str:
    return "first"


@mcp.tool(name="twice")
def twice_again() -> str:
    return "second"


CALLS = [
    ("called", {"x": 1}), ("by_position", {"x": 1}), ("by_keyword", {"x": 1}), ("annotated", {"x": 1}),
    ("given", {"x": 1}), ("given_again", {"x": 1}), ("times", {"x": 2}), ("anonymous", {"x": 2}), ("gone", {}),
    ("twice", {}),
]  # fmt: skip
