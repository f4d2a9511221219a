"""The types of SDK 1.x: every message of the protocol as a pydantic model.

Start with `base`, which has what all of them share.
"""

# ruff: noqa: F403, F405
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pydantic import AnyUrl, FileUrl

    from .asked import *
    from .base import *
    from .capabilities import *
    from .content import *
    from .envelopes import *
    from .notices import *
    from .offered import *
    from .opening import *
    from .tasks import *
    from .tools import *
    from .unions import *

_PARTS: Final = (
    "base",
    "content",
    "tools",
    "capabilities",
    "offered",
    "notices",
    "opening",
    "asked",
    "envelopes",
    "tasks",
    "unions",
)
"""Each needs some of those before it, and fewer servers need it."""


def __getattr__(name: str) -> Any:
    """The first part that has ``name`` is loaded, with those before it: making models costs more than using them."""
    if name in ("AnyUrl", "FileUrl"):
        return vars(import_module("pydantic.networks"))[name]
    if name in _NAMES:
        for part in _PARTS:
            names = vars(import_module(f".{part}", __name__))
            if name in names:
                value = globals()[name] = names[name]
                return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "CONNECTION_CLOSED", "DEFAULT_NEGOTIATED_VERSION", "INTERNAL_ERROR", "INVALID_PARAMS",
    "INVALID_REQUEST", "LATEST_PROTOCOL_VERSION", "METHOD_NOT_FOUND", "PARSE_ERROR", "TASK_FORBIDDEN",
    "TASK_OPTIONAL", "TASK_REQUIRED", "TASK_STATUS_CANCELLED", "TASK_STATUS_COMPLETED",
    "TASK_STATUS_FAILED", "TASK_STATUS_INPUT_REQUIRED", "TASK_STATUS_WORKING", "URL_ELICITATION_REQUIRED",
    "Annotations", "AnyFunction", "AnyUrl", "AudioContent", "BaseMetadata", "BlobResourceContents",
    "CallToolRequest", "CallToolRequestParams", "CallToolResult", "CancelTaskRequest",
    "CancelTaskRequestParams", "CancelTaskResult", "CancelledNotification", "CancelledNotificationParams",
    "ClientCapabilities", "ClientNotification", "ClientNotificationType", "ClientRequest",
    "ClientRequestType", "ClientResult", "ClientResultType", "ClientTasksCapability",
    "ClientTasksRequestsCapability", "CompleteRequest", "CompleteRequestParams", "CompleteResult",
    "Completion", "CompletionArgument", "CompletionContext", "CompletionsCapability", "Content",
    "ContentBlock", "CreateMessageRequest", "CreateMessageRequestParams", "CreateMessageResult",
    "CreateMessageResultWithTools", "CreateTaskResult", "Cursor", "ElicitCompleteNotification",
    "ElicitCompleteNotificationParams", "ElicitRequest", "ElicitRequestFormParams", "ElicitRequestParams",
    "ElicitRequestURLParams", "ElicitRequestedSchema", "ElicitResult", "ElicitationCapability",
    "ElicitationRequiredErrorData", "EmbeddedResource", "EmptyResult", "ErrorData", "FileUrl",
    "FormElicitationCapability", "GetPromptRequest", "GetPromptRequestParams", "GetPromptResult",
    "GetTaskPayloadRequest", "GetTaskPayloadRequestParams", "GetTaskPayloadResult", "GetTaskRequest",
    "GetTaskRequestParams", "GetTaskResult", "Icon", "ImageContent", "Implementation", "IncludeContext",
    "InitializeRequest", "InitializeRequestParams", "InitializeResult", "InitializedNotification",
    "JSONRPCError", "JSONRPCMessage", "JSONRPCNotification", "JSONRPCRequest", "JSONRPCResponse",
    "ListPromptsRequest", "ListPromptsResult", "ListResourceTemplatesRequest",
    "ListResourceTemplatesResult", "ListResourcesRequest", "ListResourcesResult", "ListRootsRequest",
    "ListRootsResult", "ListTasksRequest", "ListTasksResult", "ListToolsRequest", "ListToolsResult",
    "LoggingCapability", "LoggingLevel", "LoggingMessageNotification", "LoggingMessageNotificationParams",
    "MethodT", "ModelHint", "ModelPreferences", "Notification", "NotificationParams", "NotificationParamsT",
    "PaginatedRequest", "PaginatedRequestParams", "PaginatedResult", "PingRequest", "ProgressNotification",
    "ProgressNotificationParams", "ProgressToken", "Prompt", "PromptArgument",
    "PromptListChangedNotification", "PromptMessage", "PromptReference", "PromptsCapability",
    "ReadResourceRequest", "ReadResourceRequestParams", "ReadResourceResult", "RelatedTaskMetadata",
    "Request", "RequestId", "RequestParams", "RequestParamsT", "Resource", "ResourceContents",
    "ResourceLink", "ResourceListChangedNotification", "ResourceReference", "ResourceTemplate",
    "ResourceTemplateReference", "ResourceUpdatedNotification", "ResourceUpdatedNotificationParams",
    "ResourcesCapability", "Result", "Role", "Root", "RootsCapability", "RootsListChangedNotification",
    "SamplingCapability", "SamplingContent", "SamplingContextCapability", "SamplingMessage",
    "SamplingMessageContentBlock", "SamplingToolsCapability", "ServerCapabilities", "ServerNotification",
    "ServerNotificationType", "ServerRequest", "ServerRequestType", "ServerResult", "ServerResultType",
    "ServerTasksCapability", "ServerTasksRequestsCapability", "SetLevelRequest", "SetLevelRequestParams",
    "StopReason", "SubscribeRequest", "SubscribeRequestParams", "Task", "TaskExecutionMode", "TaskMetadata",
    "TaskStatus", "TaskStatusNotification", "TaskStatusNotificationParams", "TasksCallCapability",
    "TasksCancelCapability", "TasksCreateElicitationCapability", "TasksCreateMessageCapability",
    "TasksElicitationCapability", "TasksListCapability", "TasksSamplingCapability", "TasksToolsCapability",
    "TextContent", "TextResourceContents", "Tool", "ToolAnnotations", "ToolChoice", "ToolExecution",
    "ToolListChangedNotification", "ToolResultContent", "ToolUseContent", "ToolsCapability",
    "UnsubscribeRequest", "UnsubscribeRequestParams", "UrlElicitationCapability",
]  # fmt: skip
_NAMES: Final = frozenset(__all__)
