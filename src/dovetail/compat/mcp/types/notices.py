"""What few servers touch: completions, subscriptions, the log, progress, and what is said when something changed."""

from typing import Any, Generic, Literal, TypeVar

from pydantic import Field

from .base import (
    Closed,
    MethodT,
    Open,
    ProgressToken,
    Request,
    RequestId,
    RequestParams,
    Result,
    Unbound,
    Url,
)

NotificationParamsT = TypeVar("NotificationParamsT", bound="NotificationParams | dict[str, Any] | None")
LoggingLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class NotificationParams(Closed):
    class Meta(Open): ...

    meta: Meta | None = Field(alias="_meta", default=None)


class Notification(Unbound, Generic[NotificationParamsT, MethodT]):
    method: MethodT
    params: NotificationParamsT


class EmptyResult(Result): ...


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


class PromptListChangedNotification(Notification[Any, Any]):
    method: Literal["notifications/prompts/list_changed"] = "notifications/prompts/list_changed"
    params: NotificationParams | None = None


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
