"""How a session begins, and what a client says it can do."""

from typing import Any, Literal

from .base import Open, Request, RequestParams, Result
from .capabilities import Implementation, ServerCapabilities, TasksCancelCapability, TasksListCapability
from .notices import Notification, NotificationParams


class RootsCapability(Open):
    listChanged: bool | None = None


class SamplingContextCapability(Open): ...


class SamplingToolsCapability(Open): ...


class FormElicitationCapability(Open): ...


class UrlElicitationCapability(Open): ...


class ElicitationCapability(Open):
    form: FormElicitationCapability | None = None
    url: UrlElicitationCapability | None = None


class SamplingCapability(Open):
    context: SamplingContextCapability | None = None
    tools: SamplingToolsCapability | None = None


class TasksCreateMessageCapability(Open): ...


class TasksSamplingCapability(Open):
    createMessage: TasksCreateMessageCapability | None = None


class TasksCreateElicitationCapability(Open): ...


class TasksElicitationCapability(Open):
    create: TasksCreateElicitationCapability | None = None


class ClientTasksRequestsCapability(Open):
    sampling: TasksSamplingCapability | None = None
    elicitation: TasksElicitationCapability | None = None


class ClientTasksCapability(Open):
    list: TasksListCapability | None = None
    cancel: TasksCancelCapability | None = None
    requests: ClientTasksRequestsCapability | None = None


class ClientCapabilities(Open):
    experimental: dict[str, dict[str, Any]] | None = None
    sampling: SamplingCapability | None = None
    elicitation: ElicitationCapability | None = None
    roots: RootsCapability | None = None
    tasks: ClientTasksCapability | None = None


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
