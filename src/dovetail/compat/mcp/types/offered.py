"""What a server offers, and the requests for it: tools, prompts, resources."""

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
    Url,
)
from .content import (
    BlobResourceContents,
    ContentBlock,
    PromptMessage,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)


class ListResourcesRequest(PaginatedRequest[Any]):
    method: Literal["resources/list"] = "resources/list"


class ListResourcesResult(PaginatedResult):
    resources: list[Resource]


class ListResourceTemplatesRequest(PaginatedRequest[Any]):
    method: Literal["resources/templates/list"] = "resources/templates/list"


class ListResourceTemplatesResult(PaginatedResult):
    resourceTemplates: list[ResourceTemplate]


class ReadResourceRequestParams(RequestParams):
    model_config = Open.model_config
    uri: Url


class ReadResourceRequest(Request[Any, Any]):
    method: Literal["resources/read"] = "resources/read"
    params: ReadResourceRequestParams


class ReadResourceResult(Result):
    contents: list[TextResourceContents | BlobResourceContents]


class ListPromptsRequest(PaginatedRequest[Any]):
    method: Literal["prompts/list"] = "prompts/list"


class PromptArgument(Open):
    name: str
    description: str | None = None
    required: bool | None = None


class Prompt(BaseMetadata):
    model_config = Open.model_config
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    icons: list[Icon] | None = None
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)


class ListPromptsResult(PaginatedResult):
    prompts: list[Prompt]


class GetPromptRequestParams(RequestParams):
    model_config = Open.model_config
    name: str
    arguments: dict[str, str] | None = None


class GetPromptRequest(Request[Any, Any]):
    method: Literal["prompts/get"] = "prompts/get"
    params: GetPromptRequestParams


class GetPromptResult(Result):
    description: str | None = None
    messages: list[PromptMessage]


class ListToolsRequest(PaginatedRequest[Any]):
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
