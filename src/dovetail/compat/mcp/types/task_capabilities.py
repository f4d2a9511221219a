"""What either side can do with tasks."""

from .base import Open


class TasksListCapability(Open): ...


class TasksCancelCapability(Open): ...


class TasksCallCapability(Open): ...


class TasksToolsCapability(Open):
    call: TasksCallCapability | None = None


class ServerTasksRequestsCapability(Open):
    tools: TasksToolsCapability | None = None


class ServerTasksCapability(Open):
    list: TasksListCapability | None = None
    cancel: TasksCancelCapability | None = None
    requests: ServerTasksRequestsCapability | None = None


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
