"""What a server asks of a client's user: a form, or to go somewhere; and what is said around it."""

from typing import Any, Literal

from .base import Open, Result
from .notices import Notification, NotificationParams
from .requests import Request, RequestParams

ElicitRequestedSchema = dict[str, Any]


class RootsListChangedNotification(Notification[Any, Any]):
    method: Literal["notifications/roots/list_changed"] = "notifications/roots/list_changed"
    params: NotificationParams | None = None


class ElicitCompleteNotificationParams(NotificationParams):
    model_config = Open.model_config
    elicitationId: str


class ElicitCompleteNotification(Notification[Any, Any]):
    method: Literal["notifications/elicitation/complete"] = "notifications/elicitation/complete"
    params: ElicitCompleteNotificationParams


class ElicitRequestFormParams(RequestParams):
    model_config = Open.model_config
    mode: Literal["form"] = "form"
    message: str
    requestedSchema: ElicitRequestedSchema


class ElicitRequestURLParams(RequestParams):
    model_config = Open.model_config
    mode: Literal["url"] = "url"
    message: str
    url: str
    elicitationId: str


ElicitRequestParams = ElicitRequestURLParams | ElicitRequestFormParams


class ElicitRequest(Request[Any, Any]):
    method: Literal["elicitation/create"] = "elicitation/create"
    params: ElicitRequestParams


class ElicitResult(Result):
    action: Literal["accept", "decline", "cancel"]
    content: dict[str, str | int | float | bool | list[str] | None] | None = None


class ElicitationRequiredErrorData(Open):
    elicitations: list[ElicitRequestURLParams]
