"""How a session begins."""

from typing import Any, Literal

from .base import Open, Result
from .capabilities import Implementation, ServerCapabilities
from .client_capabilities import ClientCapabilities
from .notices import Notification, NotificationParams
from .requests import Request, RequestParams


class InitializeRequestParams(RequestParams):
    model_config = Open.model_config
    protocolVersion: str | int
    capabilities: ClientCapabilities
    clientInfo: Implementation


class InitializeRequest(Request[Any, Any]):
    method: Literal["initialize"] = "initialize"
    params: InitializeRequestParams


class InitializeResult(Result):
    protocolVersion: str | int
    capabilities: ServerCapabilities
    serverInfo: Implementation
    instructions: str | None = None


class InitializedNotification(Notification[Any, Any]):
    method: Literal["notifications/initialized"] = "notifications/initialized"
    params: NotificationParams | None = None
