"""One of all requests, notifications or results that a side may send."""

from typing import TypeVar

from pydantic import ConfigDict, RootModel

# ruff: noqa: F403, F405
from .elicitation import *
from .notices import *
from .opening import *
from .prompt_calls import *
from .requests import *
from .resource_reads import *
from .results import *
from .roots import *
from .sampling import *
from .tasks import *
from .tool_calls import *
from .wishes import *

T = TypeVar("T")


class OneOf(RootModel[T]):
    """Built when it is first used: what nobody sends costs nothing."""

    model_config = ConfigDict(defer_build=True)


ClientRequestType = (
    PingRequest | InitializeRequest | CompleteRequest | SetLevelRequest | GetPromptRequest
    | ListPromptsRequest | ListResourcesRequest | ListResourceTemplatesRequest | ReadResourceRequest
    | SubscribeRequest | UnsubscribeRequest | CallToolRequest | ListToolsRequest | GetTaskRequest
    | GetTaskPayloadRequest | ListTasksRequest | CancelTaskRequest
)  # fmt: skip


class ClientRequest(OneOf[ClientRequestType]):
    pass


ClientNotificationType = (
    CancelledNotification | ProgressNotification | InitializedNotification | RootsListChangedNotification
    | TaskStatusNotification
)  # fmt: skip


class ClientNotification(OneOf[ClientNotificationType]):
    pass


ClientResultType = (
    EmptyResult | CreateMessageResult | CreateMessageResultWithTools | ListRootsResult | ElicitResult
    | GetTaskResult | GetTaskPayloadResult | ListTasksResult | CancelTaskResult | CreateTaskResult
)  # fmt: skip


class ClientResult(OneOf[ClientResultType]):
    pass


ServerRequestType = (
    PingRequest | CreateMessageRequest | ListRootsRequest | ElicitRequest | GetTaskRequest
    | GetTaskPayloadRequest | ListTasksRequest | CancelTaskRequest
)  # fmt: skip


class ServerRequest(OneOf[ServerRequestType]):
    pass


ServerNotificationType = (
    CancelledNotification | ProgressNotification | LoggingMessageNotification | ResourceUpdatedNotification
    | ResourceListChangedNotification | ToolListChangedNotification | PromptListChangedNotification
    | ElicitCompleteNotification | TaskStatusNotification
)  # fmt: skip


class ServerNotification(OneOf[ServerNotificationType]):
    pass


ServerResultType = (
    EmptyResult | InitializeResult | CompleteResult | GetPromptResult | ListPromptsResult
    | ListResourcesResult | ListResourceTemplatesResult | ReadResourceResult | CallToolResult
    | ListToolsResult | GetTaskResult | GetTaskPayloadResult | ListTasksResult | CancelTaskResult
    | CreateTaskResult
)  # fmt: skip


class ServerResult(OneOf[ServerResultType]):
    pass


__all__ = [
    "ClientNotification", "ClientNotificationType", "ClientRequest", "ClientRequestType", "ClientResult",
    "ClientResultType", "ServerNotification", "ServerNotificationType", "ServerRequest", "ServerRequestType",
    "ServerResult", "ServerResultType",
]  # fmt: skip
