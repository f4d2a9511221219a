"""What a call of a low-level server of SDK 1.x costs more than the same tool of ours, in Python calls."""

import asyncio
import json
import sys
from types import FrameType
from typing import Any

from dovetail import Server
from dovetail.compat.mcp import types
from dovetail.compat.mcp.server.lowlevel import Server as LowLevel

MORE = 25
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
CALL = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "shout",
            "arguments": {"text": "a"},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "peer", "version": "1"},
            },
        },
    }
).encode()


def native() -> Server:
    server = Server("native")

    async def handler(arguments: dict[str, Any]) -> str:
        return arguments["text"].upper()

    server.add_tool(name="shout", input_schema=SCHEMA, handler=handler)
    return server


def compat() -> Server:
    server = LowLevel("low")

    @server.list_tools()
    async def list_tools() -> list[types.Tool]:
        return [types.Tool(name="shout", inputSchema=SCHEMA)]

    @server.call_tool()
    async def call_tool(name: str, arguments: dict[str, Any]) -> Any:
        return [types.TextContent(type="text", text=arguments["text"].upper())]

    return server.native


async def calls(server: Server) -> int:
    """Python calls of one call, of which there have been some before."""
    for _ in range(3):
        reply = await server.handle(CALL)
    assert reply is not None
    assert b'"A"' in reply
    count = 0

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(watch)
    try:
        await server.handle(CALL)
    finally:
        sys.setprofile(None)
    return count


def test_a_call_costs_at_most_25_python_calls_more() -> None:
    more = asyncio.run(calls(compat())) - asyncio.run(calls(native()))
    assert more <= MORE, more
