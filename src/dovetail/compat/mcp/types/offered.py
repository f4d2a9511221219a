"""What a server offers, and the requests for it: tools, prompts, resources, completions, its log."""

from typing import Any, Literal

from pydantic import Field

from .base import (
    BaseMetadata,
    Icon,
    Notification,
    NotificationParams,
    Open,
    PaginatedRequest,
    PaginatedResult,
    ProgressToken,
    Request,
    RequestId,
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

LoggingLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


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


class ResourceListChangedNotification(Notification[Any, Any]):
    method: Literal["notifications/resources/list_changed"] = "notifications/resources/list_changed"
    params: NotificationParams | None = None


class SubscribeRequestParams(RequestParams):
    model_config = Open.model_config
    uri: Url


class SubscribeRequest(Request[Any, Any]):
    method: Literal["resources/subscribe"] = "resources/subscribe"
    params: SubscribeRequestParams


class UnsubscribeRequestParams(RequestParams):
    model_config = Open.model_config
    uri: Url


class UnsubscribeRequest(Request[Any, Any]):
    method: Literal["resources/unsubscribe"] = "resources/unsubscribe"
    params: UnsubscribeRequestParams


class ResourceUpdatedNotificationParams(NotificationParams):
    model_config = Open.model_config
    uri: Url


class ResourceUpdatedNotification(Notification[Any, Any]):
    method: Literal["notifications/resources/updated"] = "notifications/resources/updated"
    params: ResourceUpdatedNotificationParams


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


class PromptListChangedNotification(Notification[Any, Any]):
    method: Literal["notifications/prompts/list_changed"] = "notifications/prompts/list_changed"
    params: NotificationParams | None = None


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


class ToolListChangedNotification(Notification[Any, Any]):
    method: Literal["notifications/tools/list_changed"] = "notifications/tools/list_changed"
    params: NotificationParams | None = None


class SetLevelRequestParams(RequestParams):
    model_config = Open.model_config
    level: LoggingLevel


class SetLevelRequest(Request[Any, Any]):
    method: Literal["logging/setLevel"] = "logging/setLevel"
    params: SetLevelRequestParams


class LoggingMessageNotificationParams(NotificationParams):
    model_config = Open.model_config
    level: LoggingLevel
    logger: str | None = None
    data: Any


class LoggingMessageNotification(Notification[Any, Any]):
    method: Literal["notifications/message"] = "notifications/message"
    params: LoggingMessageNotificationParams


class ProgressNotificationParams(NotificationParams):
    model_config = Open.model_config
    progressToken: ProgressToken
    progress: float
    total: float | None = None
    message: str | None = None


class ProgressNotification(Notification[Any, Any]):
    method: Literal["notifications/progress"] = "notifications/progress"
    params: ProgressNotificationParams


class CancelledNotificationParams(NotificationParams):
    model_config = Open.model_config
    requestId: RequestId | None = None
    reason: str | None = None


class CancelledNotification(Notification[Any, Any]):
    method: Literal["notifications/cancelled"] = "notifications/cancelled"
    params: CancelledNotificationParams


class ResourceTemplateReference(Open):
    type: Literal["ref/resource"]
    uri: str


class ResourceReference(ResourceTemplateReference): ...


class PromptReference(Open):
    type: Literal["ref/prompt"]
    name: str


class CompletionArgument(Open):
    name: str
    value: str


class CompletionContext(Open):
    arguments: dict[str, str] | None = None


class CompleteRequestParams(RequestParams):
    model_config = Open.model_config
    ref: ResourceTemplateReference | PromptReference
    argument: CompletionArgument
    context: CompletionContext | None = None


class CompleteRequest(Request[Any, Any]):
    method: Literal["completion/complete"] = "completion/complete"
    params: CompleteRequestParams


class Completion(Open):
    values: list[str]
    total: int | None = None
    hasMore: bool | None = None


class CompleteResult(Result):
    completion: Completion
