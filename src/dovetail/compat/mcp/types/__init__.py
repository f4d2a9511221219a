"""The types of SDK 1.x: every message of the protocol as a pydantic model.

Start with `base`, which has what all of them share.
"""

# ruff: noqa: F403, F405
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pydantic import AnyUrl, FileUrl

    from .base import *
    from .capabilities import *
    from .client_capabilities import *
    from .content import *
    from .elicitation import *
    from .envelopes import *
    from .notices import *
    from .opening import *
    from .prompt_calls import *
    from .prompts import *
    from .requests import *
    from .resource_reads import *
    from .resources import *
    from .results import *
    from .roots import *
    from .sampling import *
    from .task_capabilities import *
    from .tasks import *
    from .tool_calls import *
    from .tools import *
    from .unions import *
    from .wishes import *

_PARTS: Final = {
    "base": """Annotations AnyFunction BaseMetadata CONNECTION_CLOSED Cursor DEFAULT_NEGOTIATED_VERSION ErrorData
        INTERNAL_ERROR INVALID_PARAMS INVALID_REQUEST Icon LATEST_PROTOCOL_VERSION LoggingLevel METHOD_NOT_FOUND
        PARSE_ERROR ProgressToken RequestId Result Role TASK_FORBIDDEN TASK_OPTIONAL TASK_REQUIRED
        TaskExecutionMode URL_ELICITATION_REQUIRED""",
    "addresses": "AnyUrl FileUrl",
    "content": "AudioContent ImageContent TextContent",
    "tools": "Tool ToolAnnotations ToolExecution",
    "capabilities": """CompletionsCapability Implementation LoggingCapability PromptsCapability ResourcesCapability
        ServerCapabilities ToolsCapability""",
    "resources": """BlobResourceContents Content ContentBlock EmbeddedResource Resource ResourceContents
        ResourceLink ResourceTemplate TextResourceContents""",
    "requests": """MethodT PaginatedRequest PaginatedRequestParams PaginatedResult PingRequest Request
        RequestParams RequestParamsT SetLevelRequest SetLevelRequestParams TaskMetadata""",
    "prompt_calls": "GetPromptRequest GetPromptRequestParams ListPromptsRequest",
    "results": """GetPromptResult ListPromptsResult ListResourceTemplatesResult ListResourcesResult
        ListToolsResult ReadResourceResult""",
    "tool_calls": "CallToolRequest CallToolRequestParams CallToolResult ListToolsRequest",
    "prompts": "Prompt PromptArgument PromptMessage",
    "resource_reads": """ListResourceTemplatesRequest ListResourcesRequest ReadResourceRequest
        ReadResourceRequestParams""",
    "notices": """CancelledNotification CancelledNotificationParams LoggingMessageNotification
        LoggingMessageNotificationParams Notification NotificationParams NotificationParamsT
        ProgressNotification ProgressNotificationParams PromptListChangedNotification
        ResourceListChangedNotification ResourceUpdatedNotification ResourceUpdatedNotificationParams
        ToolListChangedNotification""",
    "wishes": """CompleteRequest CompleteRequestParams CompleteResult Completion CompletionArgument
        CompletionContext EmptyResult PromptReference ResourceReference ResourceTemplateReference
        SubscribeRequest SubscribeRequestParams UnsubscribeRequest
        UnsubscribeRequestParams""",
    "client_capabilities": """ClientCapabilities ElicitationCapability FormElicitationCapability RootsCapability
        SamplingCapability SamplingContextCapability SamplingToolsCapability UrlElicitationCapability""",
    "task_capabilities": """ClientTasksCapability ClientTasksRequestsCapability ServerTasksCapability
        ServerTasksRequestsCapability TasksCallCapability TasksCancelCapability
        TasksCreateElicitationCapability TasksCreateMessageCapability TasksElicitationCapability
        TasksListCapability TasksSamplingCapability TasksToolsCapability""",
    "opening": "InitializeRequest InitializeRequestParams InitializeResult InitializedNotification",
    "roots": "ListRootsRequest ListRootsResult Root",
    "sampling": """CreateMessageRequest CreateMessageRequestParams CreateMessageResult CreateMessageResultWithTools
        IncludeContext ModelHint ModelPreferences SamplingContent SamplingMessage SamplingMessageContentBlock
        StopReason ToolChoice ToolResultContent ToolUseContent""",
    "elicitation": """ElicitCompleteNotification ElicitCompleteNotificationParams ElicitRequest ElicitRequestFormParams
        ElicitRequestParams ElicitRequestURLParams ElicitRequestedSchema ElicitResult
        ElicitationRequiredErrorData RootsListChangedNotification""",
    "envelopes": "JSONRPCError JSONRPCMessage JSONRPCNotification JSONRPCRequest JSONRPCResponse",
    "tasks": """CancelTaskRequest CancelTaskRequestParams CancelTaskResult CreateTaskResult GetTaskPayloadRequest
        GetTaskPayloadRequestParams GetTaskPayloadResult GetTaskRequest GetTaskRequestParams GetTaskResult
        ListTasksRequest ListTasksResult RelatedTaskMetadata TASK_STATUS_CANCELLED TASK_STATUS_COMPLETED
        TASK_STATUS_FAILED TASK_STATUS_INPUT_REQUIRED TASK_STATUS_WORKING Task TaskStatus TaskStatusNotification
        TaskStatusNotificationParams""",
    "unions": """ClientNotification ClientNotificationType ClientRequest ClientRequestType ClientResult ClientResultType
        ServerNotification ServerNotificationType ServerRequest ServerRequestType ServerResult ServerResultType""",
}
"""Where each name is: making models costs more than using them, so a server gets those that it asks for."""
_HOME: Final = {name: part for part, names in _PARTS.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Load the part that has ``name``."""
    part = _HOME.get(name)
    if part is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = vars(import_module(f".{part}", __name__))[name]
    return value


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
