"""Who somebody is and what they can do: implementations, capabilities, and the handshake that tells them."""

from typing import Any, Literal

from .base import BaseMetadata, Icon, Notification, NotificationParams, Open, Request, RequestParams, Result


class Implementation(BaseMetadata):
    model_config = Open.model_config
    version: str
    websiteUrl: str | None = None
    icons: list[Icon] | None = None


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


class TasksListCapability(Open): ...


class TasksCancelCapability(Open): ...


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


class PromptsCapability(Open):
    listChanged: bool | None = None


class ResourcesCapability(Open):
    subscribe: bool | None = None
    listChanged: bool | None = None


class ToolsCapability(Open):
    listChanged: bool | None = None


class LoggingCapability(Open): ...


class CompletionsCapability(Open): ...


class TasksCallCapability(Open): ...


class TasksToolsCapability(Open):
    call: TasksCallCapability | None = None


class ServerTasksRequestsCapability(Open):
    tools: TasksToolsCapability | None = None


class ServerTasksCapability(Open):
    list: TasksListCapability | None = None
    cancel: TasksCancelCapability | None = None
    requests: ServerTasksRequestsCapability | None = None


class ServerCapabilities(Open):
    experimental: dict[str, dict[str, Any]] | None = None
    logging: LoggingCapability | None = None
    prompts: PromptsCapability | None = None
    resources: ResourcesCapability | None = None
    tools: ToolsCapability | None = None
    completions: CompletionsCapability | None = None
    tasks: ServerTasksCapability | None = None


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


class PingRequest(Request[Any, Any]):
    method: Literal["ping"] = "ping"
    params: RequestParams | None = None
