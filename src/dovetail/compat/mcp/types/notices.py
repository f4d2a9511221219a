"""What is said without being asked: something changed, the log, progress, a request that is given up."""

from typing import Any, Generic, Literal, TypeVar

from pydantic import Field

from .base import Closed, LoggingLevel, Open, ProgressToken, RequestId, Url
from .requests import MethodT, Unbound

NotificationParamsT = TypeVar("NotificationParamsT", bound="NotificationParams | dict[str, Any] | None")


class NotificationParams(Closed):
    class Meta(Open): ...

    meta: Meta | None = Field(alias="_meta", default=None)


class Notification(Unbound, Generic[NotificationParamsT, MethodT]):
    method: MethodT
    params: NotificationParamsT


class ResourceListChangedNotification(Notification[Any, Any]):
    method: Literal["notifications/resources/list_changed"] = "notifications/resources/list_changed"
    params: NotificationParams | None = None


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
