"""One of all requests, notifications or results that a side may send."""

from pydantic import ConfigDict, RootModel

from .asked import (
    CreateMessageRequest,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitCompleteNotification,
    ElicitRequest,
    ElicitResult,
    ListRootsRequest,
    ListRootsResult,
    RootsListChangedNotification,
)
from .base import (
    EmptyResult,
)
from .capabilities import (
    InitializedNotification,
    InitializeRequest,
    InitializeResult,
    PingRequest,
)
from .offered import (
    CallToolRequest,
    CallToolResult,
    CancelledNotification,
    CompleteRequest,
    CompleteResult,
    GetPromptRequest,
    GetPromptResult,
    ListPromptsRequest,
    ListPromptsResult,
    ListResourcesRequest,
    ListResourcesResult,
    ListResourceTemplatesRequest,
    ListResourceTemplatesResult,
    ListToolsRequest,
    ListToolsResult,
    LoggingMessageNotification,
    ProgressNotification,
    PromptListChangedNotification,
    ReadResourceRequest,
    ReadResourceResult,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    SetLevelRequest,
    SubscribeRequest,
    ToolListChangedNotification,
    UnsubscribeRequest,
)
from .tasks import (
    CancelTaskRequest,
    CancelTaskResult,
    CreateTaskResult,
    GetTaskPayloadRequest,
    GetTaskPayloadResult,
    GetTaskRequest,
    GetTaskResult,
    ListTasksRequest,
    ListTasksResult,
    TaskStatusNotification,
)

ClientRequestType = (
    PingRequest
    | InitializeRequest
    | CompleteRequest
    | SetLevelRequest
    | GetPromptRequest
    | ListPromptsRequest
    | ListResourcesRequest
    | ListResourceTemplatesRequest
    | ReadResourceRequest
    | SubscribeRequest
    | UnsubscribeRequest
    | CallToolRequest
    | ListToolsRequest
    | GetTaskRequest
    | GetTaskPayloadRequest
    | ListTasksRequest
    | CancelTaskRequest
)


class ClientRequest(RootModel[ClientRequestType]):
    model_config = ConfigDict(defer_build=True)


ClientNotificationType = (
    CancelledNotification
    | ProgressNotification
    | InitializedNotification
    | RootsListChangedNotification
    | TaskStatusNotification
)


class ClientNotification(RootModel[ClientNotificationType]):
    model_config = ConfigDict(defer_build=True)


ClientResultType = (
    EmptyResult
    | CreateMessageResult
    | CreateMessageResultWithTools
    | ListRootsResult
    | ElicitResult
    | GetTaskResult
    | GetTaskPayloadResult
    | ListTasksResult
    | CancelTaskResult
    | CreateTaskResult
)


class ClientResult(RootModel[ClientResultType]):
    model_config = ConfigDict(defer_build=True)


ServerRequestType = (
    PingRequest
    | CreateMessageRequest
    | ListRootsRequest
    | ElicitRequest
    | GetTaskRequest
    | GetTaskPayloadRequest
    | ListTasksRequest
    | CancelTaskRequest
)


class ServerRequest(RootModel[ServerRequestType]):
    model_config = ConfigDict(defer_build=True)


ServerNotificationType = (
    CancelledNotification
    | ProgressNotification
    | LoggingMessageNotification
    | ResourceUpdatedNotification
    | ResourceListChangedNotification
    | ToolListChangedNotification
    | PromptListChangedNotification
    | ElicitCompleteNotification
    | TaskStatusNotification
)


class ServerNotification(RootModel[ServerNotificationType]):
    model_config = ConfigDict(defer_build=True)


ServerResultType = (
    EmptyResult
    | InitializeResult
    | CompleteResult
    | GetPromptResult
    | ListPromptsResult
    | ListResourcesResult
    | ListResourceTemplatesResult
    | ReadResourceResult
    | CallToolResult
    | ListToolsResult
    | GetTaskResult
    | GetTaskPayloadResult
    | ListTasksResult
    | CancelTaskResult
    | CreateTaskResult
)


class ServerResult(RootModel[ServerResultType]):
    model_config = ConfigDict(defer_build=True)
