"""What a client says it can do."""

from typing import TYPE_CHECKING, Any

from .base import Open, later

if TYPE_CHECKING:
    from .task_capabilities import ClientTasksCapability as Tasks
else:
    Tasks = later(".task_capabilities", "ClientTasksCapability")


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


class ClientCapabilities(Open):
    experimental: dict[str, dict[str, Any]] | None = None
    sampling: SamplingCapability | None = None
    elicitation: ElicitationCapability | None = None
    roots: RootsCapability | None = None
    tasks: Tasks | None = None
