"""One of all requests, notifications or results that a side may send."""

from pydantic import ConfigDict, RootModel

# ruff: noqa: F403, F405
from .asked import *
from .base import *
from .capabilities import *
from .offered import *
from .tasks import *

ClientRequestType = (
    PingRequest | InitializeRequest | CompleteRequest | SetLevelRequest | GetPromptRequest
    | ListPromptsRequest | ListResourcesRequest | ListResourceTemplatesRequest | ReadResourceRequest
    | SubscribeRequest | UnsubscribeRequest | CallToolRequest | ListToolsRequest | GetTaskRequest
    | GetTaskPayloadRequest | ListTasksRequest | CancelTaskRequest
)  # fmt: skip


class ClientRequest(RootModel[ClientRequestType]):
    model_config = ConfigDict(defer_build=True)


ClientNotificationType = (
    CancelledNotification | ProgressNotification | InitializedNotification | RootsListChangedNotification
    | TaskStatusNotification
)  # fmt: skip


class ClientNotification(RootModel[ClientNotificationType]):
    model_config = ConfigDict(defer_build=True)


ClientResultType = (
    EmptyResult | CreateMessageResult | CreateMessageResultWithTools | ListRootsResult | ElicitResult
    | GetTaskResult | GetTaskPayloadResult | ListTasksResult | CancelTaskResult | CreateTaskResult
)  # fmt: skip


class ClientResult(RootModel[ClientResultType]):
    model_config = ConfigDict(defer_build=True)


ServerRequestType = (
    PingRequest | CreateMessageRequest | ListRootsRequest | ElicitRequest | GetTaskRequest
    | GetTaskPayloadRequest | ListTasksRequest | CancelTaskRequest
)  # fmt: skip


class ServerRequest(RootModel[ServerRequestType]):
    model_config = ConfigDict(defer_build=True)


ServerNotificationType = (
    CancelledNotification | ProgressNotification | LoggingMessageNotification | ResourceUpdatedNotification
    | ResourceListChangedNotification | ToolListChangedNotification | PromptListChangedNotification
    | ElicitCompleteNotification | TaskStatusNotification
)  # fmt: skip


class ServerNotification(RootModel[ServerNotificationType]):
    model_config = ConfigDict(defer_build=True)


ServerResultType = (
    EmptyResult | InitializeResult | CompleteResult | GetPromptResult | ListPromptsResult
    | ListResourcesResult | ListResourceTemplatesResult | ReadResourceResult | CallToolResult
    | ListToolsResult | GetTaskResult | GetTaskPayloadResult | ListTasksResult | CancelTaskResult
    | CreateTaskResult
)  # fmt: skip


class ServerResult(RootModel[ServerResultType]):
    model_config = ConfigDict(defer_build=True)


__all__ = [
    "ClientNotification", "ClientNotificationType", "ClientRequest", "ClientRequestType", "ClientResult",
    "ClientResultType", "ServerNotification", "ServerNotificationType", "ServerRequest", "ServerRequestType",
    "ServerResult", "ServerResultType",
]  # fmt: skip
