"""Tools, and the requests for them: most servers need no other."""

from typing import Any, Literal

from pydantic import Field

from .base import (
    BaseMetadata,
    Icon,
    Open,
    PaginatedRequest,
    PaginatedResult,
    Request,
    RequestParams,
    Result,
    TaskExecutionMode,
)
from .content import ContentBlock


class ListToolsRequest(PaginatedRequest[Any, Any]):
    method: Literal["tools/list"] = "tools/list"


class ToolAnnotations(Open):
    title: str | None = None
    readOnlyHint: bool | None = None
    destructiveHint: bool | None = None
    idempotentHint: bool | None = None
    openWorldHint: bool | None = None


class ToolExecution(Open):
    taskSupport: TaskExecutionMode | None = None


class Tool(BaseMetadata):
    model_config = Open.model_config
    description: str | None = None
    inputSchema: dict[str, Any]
    outputSchema: dict[str, Any] | None = None
    icons: list[Icon] | None = None
    annotations: ToolAnnotations | None = None
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)
    execution: ToolExecution | None = None


class ListToolsResult(PaginatedResult):
    tools: list[Tool]


class CallToolRequestParams(RequestParams):
    model_config = Open.model_config
    name: str
    arguments: dict[str, Any] | None = None


class CallToolRequest(Request[Any, Any]):
    method: Literal["tools/call"] = "tools/call"
    params: CallToolRequestParams


class CallToolResult(Result):
    content: list[ContentBlock]
    structuredContent: dict[str, Any] | None = None
    isError: bool = False
