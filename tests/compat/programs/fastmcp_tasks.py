"""A tool that may run as a task: FastMCP 2 and 3."""

import asyncio

from fastmcp import FastMCP

mcp = FastMCP("tasks")


@mcp.tool(task=True)
async def long(value: int) -> int:
    await asyncio.sleep(0.1)
    return value + 1


if __name__ == "__main__":
    mcp.run()
