"""AutoGen: its tools and workbench, its own MCP client."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from autogen_core import CancellationToken
from autogen_core.tools import BaseTool, ImageResultContent
from autogen_ext.tools.mcp import McpWorkbench, SseServerParams, StdioServerParams, StreamableHttpServerParams
from scenario import PIXEL, Outcome

from dovetail.errors import DovetailError
from dovetail.integrations import autogen as module

IMAGES, DATA = False, True
THEIRS_CANCELS = "nothing"  # its workbench fails when a token is cancelled


class Named:
    """A tool of a workbench."""

    def __init__(self, workbench: Any, schema: Any) -> None:
        self.workbench, self.schema, self.name = workbench, schema, schema["name"]


def named(tools: list[Any]) -> dict[str, Any]:
    return {each.name: each for each in tools}


def parameters(each: Any) -> dict[str, Any]:
    return each.schema["parameters"]


async def call(each: Any, arguments: dict[str, Any], token: Any = None) -> Outcome:
    token = token or CancellationToken()
    if isinstance(each, BaseTool):
        try:
            value = await each.run_json(arguments, token)
        except DovetailError as error:
            return Outcome(error.message, failed=True)
        return Outcome(each.return_value_as_string(value), value.structured_content)
    result = await each.workbench.call_tool(each.name, arguments, token)
    images = tuple(PIXEL for part in result.result if isinstance(part, ImageResultContent))
    return Outcome(result.to_text("[image]"), None, images, result.is_error)


def waiting(each: Any, arguments: dict[str, Any]) -> Any:
    token = CancellationToken()
    return asyncio.ensure_future(call(each, arguments, token)), token.cancel


@asynccontextmanager
async def theirs(transport: str, target: tuple[str, ...]) -> AsyncIterator[list[Any]]:
    if transport == "stdio":
        params: Any = StdioServerParams(command=target[0], args=list(target[1:]), read_timeout_seconds=60)
    else:
        kind: Any = SseServerParams if transport == "sse" else StreamableHttpServerParams
        params = kind(url=target[0])
    async with McpWorkbench(params) as workbench:
        yield [Named(workbench, schema) for schema in await workbench.list_tools()]


async def more(client: Any) -> None:
    """The workbench keeps images and says which results are failures."""
    async with module.workbench(client) as workbench:
        schemas = {schema["name"]: schema for schema in await workbench.list_tools()}
        json.dumps(schemas)
        shown = await workbench.call_tool("picture")
        (image,) = [part.content for part in shown.result if isinstance(part, ImageResultContent)]
        assert image.image.size == (1, 1)
        assert io.BytesIO(base64.b64decode(image.to_base64())).read(4) == b"\x89PNG"
        failed = await workbench.call_tool("fail")
        assert (failed.is_error, failed.to_text()) == (True, "out of paper")
        unknown = await workbench.call_tool("nothing")
        assert unknown.is_error
