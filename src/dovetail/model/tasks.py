"""Tasks in three designs that share a life cycle but not a wire shape.

- 2025-11-25 has them in its core: `Task`, nested in `CreateTaskResult`, flat in `GetTaskResult`.
- 2026-07-28 has an extension: `ExtensionTask` and `DetailedTask`, flat everywhere, times in ``…Ms`` members.
- erlmcp has ``tasks/create``: the ``Erlmcp…`` Structs.

Flat means that the task's members stand beside ``_meta``, so the records here derive from `Result`; as the
params of a notification they simply have no ``resultType``.
"""

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Raw, UnsetType

from .inputs import InputRequests
from .struct_base import (
    Definition,
    Error,
    InputResponses,
    PaginatedResult,
    ProgressToken,
    RequestParams,
    Result,
)

__all__ = [
    "CancelTaskRequestParams", "CancelTaskResult", "CreateTaskResult", "DetailedTask",
    "ErlmcpCreateTaskRequestParams", "ErlmcpCreateTaskResult", "ErlmcpGetTaskResult", "ErlmcpListTasksResult",
    "ErlmcpTask", "ErlmcpTaskAction", "ErlmcpTaskMetadata", "ErlmcpTaskResult",
    "ErlmcpTaskStatusNotificationParams", "ExtensionCreateTaskResult", "ExtensionTask",
    "GetTaskPayloadRequestParams", "GetTaskPayloadResult", "GetTaskRequestParams", "GetTaskResult",
    "ListTasksResult", "RelatedTaskMetadata", "Task", "TaskStatus", "TaskStatusNotificationParams",
    "UpdateTaskRequestParams",
]  # fmt: skip

TaskStatus: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]


# --- requests that both official designs know


class GetTaskRequestParams(RequestParams):
    task_id: str


class GetTaskPayloadRequestParams(RequestParams):
    """``tasks/result``: in 2025-11-25 it waits until the task is over."""

    task_id: str


class CancelTaskRequestParams(RequestParams):
    """``reason`` is erlmcp's; officially there is none."""

    task_id: str
    reason: str | UnsetType = UNSET


# --- 2025-11-25


class Task(Result):
    """The state of a task in 2025-11-25. Times are ISO 8601, ``ttl`` and ``poll_interval`` milliseconds.

    ``ttl`` counts from ``created_at``; ``None`` keeps the task for ever.
    """

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    ttl: int | None
    poll_interval: int | UnsetType = UNSET
    status_message: str | UnsetType = UNSET


class RelatedTaskMetadata(Definition, gc=False):
    """The value of ``io.modelcontextprotocol/related-task`` in ``_meta``."""

    task_id: str


class CreateTaskResult(Result):
    """Instead of the result: fetch it later with ``tasks/result``."""

    task: Task


class GetTaskResult(Task):
    pass


class CancelTaskResult(Task):
    pass


class TaskStatusNotificationParams(Task):
    pass


class ListTasksResult(PaginatedResult):
    tasks: list[Task]


GetTaskPayloadResult: TypeAlias = Raw
"""Exactly what the original request would have answered: decode it with that method's result type."""


# --- the extension io.modelcontextprotocol/tasks of 2026-07-28


class ExtensionTask(Result):
    """The state of a task in the extension."""

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int | UnsetType = UNSET
    status_message: str | UnsetType = UNSET


class ExtensionCreateTaskResult(ExtensionTask, kw_only=True, omit_defaults=False):
    """Instead of the result of ``tools/call``: ask ``tasks/get`` until the status is terminal.

    ``omit_defaults`` is off so that the result type is always written.
    """

    result_type: str | UnsetType = "task"


class DetailedTask(ExtensionTask, kw_only=True):
    """The result of ``tasks/get`` and the params of ``notifications/tasks``: a task in full.

    ``input_required`` has ``input_requests``, ``completed`` a ``result``, ``failed`` an ``error``.
    """

    input_requests: InputRequests | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Error | UnsetType = UNSET


class UpdateTaskRequestParams(RequestParams):
    """Answers for a running task, under the keys of its ``input_requests``; any part of them will do."""

    task_id: str
    input_responses: InputResponses


# --- erlmcp


class ErlmcpTaskAction(Definition):
    """What to run: ``type`` names a task action, by default a tool; ``parameters`` are its arguments."""

    type: str
    parameters: Raw | UnsetType = UNSET


class ErlmcpTaskMetadata(Definition):
    """The members of a task's metadata that mean something; all others are kept and shown.

    ``timeout`` is milliseconds, ``depends_on`` names tasks that have to be completed first.
    """

    progress_token: ProgressToken | UnsetType = UNSET
    timeout: int | UnsetType = UNSET
    depends_on: list[str] | UnsetType = UNSET


class ErlmcpCreateTaskRequestParams(RequestParams):
    """``task_id`` is the client's own name for the task, if it wants one."""

    action: ErlmcpTaskAction
    metadata: Raw | UnsetType = UNSET
    task_id: str | UnsetType = UNSET


class ErlmcpCreateTaskResult(Result):
    task_id: str


class ErlmcpTask(Definition):
    """``status`` is pending, processing, completed, failed or cancelled; times are in milliseconds."""

    task_id: str
    status: str
    created_at: int
    updated_at: int
    action: ErlmcpTaskAction | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    result: Any = UNSET
    error: Any = UNSET
    expires_at: int | UnsetType = UNSET
    progress: float | UnsetType = UNSET
    total: float | UnsetType = UNSET
    timeout_ms: int | UnsetType = UNSET


class ErlmcpGetTaskResult(Result):
    task: ErlmcpTask


class ErlmcpListTasksResult(Result):
    tasks: list[ErlmcpTask]
    cursor: str | UnsetType = UNSET
    next_cursor: str | UnsetType = UNSET
    """The same, as every other list calls it."""


class ErlmcpTaskResult(Result):
    """What ``tasks/result`` answers: the payload one level down."""

    result: Any


class ErlmcpTaskStatusNotificationParams(Definition):
    task_id: str
    status: str
    result: Any = UNSET
    error: Any = UNSET
