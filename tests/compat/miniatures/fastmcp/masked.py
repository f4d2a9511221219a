"""The same, masked."""

from fastmcp import FastMCP
from fastmcp.exceptions import PromptError, ResourceError, ToolError

mcp = FastMCP("masked", mask_error_details=True)


@mcp.tool
def breaks(x: int) -> int:
    return 1 // x


@mcp.tool
async def says() -> str:
    raise ToolError("not today")


@mcp.tool
def wrong_result() -> int:
    return "x"  # type: ignore[return-value]


@mcp.resource("broken://resource")
def broken() -> str:
    raise ValueError("no such thing")


@mcp.resource("told://resource")
def told() -> str:
    raise ResourceError("resource says no")


@mcp.resource("broken://{name}")
def broken_template(name: str) -> str:
    raise ValueError("no such " + name)


@mcp.prompt
def broken_prompt() -> str:
    raise ValueError("no prompt")


@mcp.prompt
def told_prompt() -> str:
    raise PromptError("prompt says no")


CALLS = [
    ("breaks", {"x": 0}),
    ("breaks", {"x": 1}),
    ("says", {}),
    ("wrong_result", {}),
    ("unknown", {"a": 1}),
]
READS = ["broken://resource", "told://resource", "broken://thing", "none://at-all"]
PROMPTS = [("broken_prompt", None), ("told_prompt", None), ("unknown", None)]
