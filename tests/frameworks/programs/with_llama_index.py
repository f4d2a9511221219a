"""LlamaIndex: its tools, its own MCP client."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from llama_index.core.base.llms.types import ImageBlock
from llama_index.core.tools import ToolOutput
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec
from scenario import Outcome

IMAGES = DATA = True
THEIRS_FORGETS = ("stdio",)


def named(tools: list[Any]) -> dict[str, Any]:
    return {each.metadata.name: each for each in tools}


def parameters(each: Any) -> dict[str, Any]:
    written = each.metadata.to_openai_tool()["function"]["parameters"]
    assert each.metadata.fn_schema.model_json_schema() == written
    return written


def _outcome(output: ToolOutput) -> Outcome:
    raw = output.raw_output
    if hasattr(raw, "structured_content"):  # their client gives the result of the SDK
        text = "\n".join(block.text for block in raw.content if block.type == "text")
        images = [base64.b64decode(block.data) for block in raw.content if block.type == "image"]
        return Outcome(text, raw.structured_content, tuple(images), raw.is_error)
    images = [
        base64.b64decode(block.image or b"") for block in output.blocks if isinstance(block, ImageBlock)
    ]
    return Outcome(output.content, raw if isinstance(raw, dict) else None, tuple(images), output.is_error)


async def call(each: Any, arguments: dict[str, Any]) -> Outcome:
    try:
        return _outcome(await each.acall(**arguments))
    except Exception as error:
        if type(error).__name__ != "MCPError":
            raise
        return Outcome(str(error), failed=True)


def call_in_thread(each: Any, arguments: dict[str, Any]) -> Outcome:
    return _outcome(each.call(**arguments))


def waiting(each: Any, arguments: dict[str, Any]) -> Any:
    task = asyncio.ensure_future(call(each, arguments))
    return task, task.cancel


@asynccontextmanager
async def theirs(transport: str, target: tuple[str, ...]) -> AsyncIterator[list[Any]]:
    client = BasicMCPClient(target[0], list(target[1:]))
    async with client.http_client:
        yield await McpToolSpec(client).to_tool_list_async()
