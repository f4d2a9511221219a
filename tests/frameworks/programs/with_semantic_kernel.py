"""Semantic Kernel: its functions, its own MCP client."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from scenario import Outcome, chain
from semantic_kernel import Kernel
from semantic_kernel.connectors.mcp import MCPSsePlugin, MCPStdioPlugin, MCPStreamableHttpPlugin
from semantic_kernel.contents import ImageContent, TextContent
from semantic_kernel.exceptions import KernelException
from semantic_kernel.functions import KernelArguments

IMAGES = DATA = True
THEIRS_CANCELS = "the caller"  # the SDK 1.x says nothing to the server


def named(tools: list[Any]) -> dict[str, Any]:
    return {each.name: each for each in tools}


def parameters(each: Any) -> dict[str, Any]:
    written = each.metadata
    from semantic_kernel.connectors.ai.function_calling_utils import (
        kernel_function_metadata_to_function_call_format,
    )

    schema = kernel_function_metadata_to_function_call_format(written)["function"]["parameters"]
    defs = {key: value for key, value in each.remote.input_schema.items() if key == "$defs"}
    return {**schema, **defs}


async def call(each: Any, arguments: dict[str, Any]) -> Outcome:
    kernel = Kernel()
    try:
        result = await kernel.invoke(each, KernelArguments(**arguments))
    except KernelException as error:
        return Outcome(chain(error), failed=True)
    items = result.value if isinstance(result.value, list) else [result.value]
    text = "\n".join(item.text for item in items if isinstance(item, TextContent))
    images = tuple(base64.b64decode(item.data_string) for item in items if isinstance(item, ImageContent))
    return Outcome(text, result.metadata.get("structured_content"), images)


def waiting(each: Any, arguments: dict[str, Any]) -> Any:
    task = asyncio.ensure_future(call(each, arguments))
    return task, task.cancel


@asynccontextmanager
async def theirs(transport: str, target: tuple[str, ...]) -> AsyncIterator[list[Any]]:
    if transport == "stdio":
        plugin: Any = MCPStdioPlugin("shop", target[0], args=list(target[1:]), load_prompts=False)
    else:
        kind: Any = MCPSsePlugin if transport == "sse" else MCPStreamableHttpPlugin
        plugin = kind("shop", target[0], load_prompts=False)
    async with plugin:
        yield list(Kernel().add_plugin(plugin).functions.values())
