"""Who somebody is, and what a server can do."""

from typing import TYPE_CHECKING, Any

from .base import BaseMetadata, Icon, Open, later

if TYPE_CHECKING:
    from .task_capabilities import ServerTasksCapability as Tasks
else:
    Tasks = later(".task_capabilities", "ServerTasksCapability")


class Implementation(BaseMetadata):
    model_config = Open.model_config
    version: str
    websiteUrl: str | None = None
    icons: list[Icon] | None = None


class PromptsCapability(Open):
    listChanged: bool | None = None


class ResourcesCapability(Open):
    subscribe: bool | None = None
    listChanged: bool | None = None


class ToolsCapability(Open):
    listChanged: bool | None = None


class LoggingCapability(Open): ...


class CompletionsCapability(Open): ...


class ServerCapabilities(Open):
    experimental: dict[str, dict[str, Any]] | None = None
    logging: LoggingCapability | None = None
    prompts: PromptsCapability | None = None
    resources: ResourcesCapability | None = None
    tools: ToolsCapability | None = None
    completions: CompletionsCapability | None = None
    tasks: Tasks | None = None
