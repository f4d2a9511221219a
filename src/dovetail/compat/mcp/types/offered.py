"""What a server offers beside tools, and the requests for it: prompts, resources."""

from typing import Any, Literal

from pydantic import Field

from .base import (
    Annotations,
    BaseMetadata,
    Icon,
    Open,
    PaginatedRequest,
    PaginatedResult,
    Request,
    RequestParams,
    Result,
    Role,
    Url,
)
from .content import (
    BlobResourceContents,
    ContentBlock,
    Resource,
    TextResourceContents,
)


class ResourceTemplate(BaseMetadata):
    model_config = Open.model_config
    uriTemplate: str
    description: str | None = None
    mimeType: str | None = None
    icons: list[Icon] | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)


class ListResourcesRequest(PaginatedRequest[Any, Any]):
    method: Literal["resources/list"] = "resources/list"


class ListResourcesResult(PaginatedResult):
    resources: list[Resource]


class ListResourceTemplatesRequest(PaginatedRequest[Any, Any]):
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


class ListPromptsRequest(PaginatedRequest[Any, Any]):
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


class PromptMessage(Open):
    role: Role
    content: ContentBlock


class GetPromptResult(Result):
    description: str | None = None
    messages: list[PromptMessage]
