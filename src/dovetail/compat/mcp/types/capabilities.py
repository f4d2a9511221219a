"""Who somebody is, and what a server can do."""

from typing import Any, Literal

from .base import BaseMetadata, Icon, Open, Request, RequestParams


class Implementation(BaseMetadata):
    model_config = Open.model_config
    version: str
    websiteUrl: str | None = None
    icons: list[Icon] | None = None


class TasksListCapability(Open): ...


class TasksCancelCapability(Open): ...


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


class PingRequest(Request[Any, Any]):
    method: Literal["ping"] = "ping"
    params: RequestParams | None = None
