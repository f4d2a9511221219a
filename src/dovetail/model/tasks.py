"""Tasks in three designs that share a life cycle but not a message format.

- 2025-11-25 defines core tasks: `Task`, nested in `CreateTaskResult`, flat in `GetTaskResult`.
- 2026-07-28 has an extension: `ExtensionTask` and `DetailedTask`, flat everywhere, times in ``…Ms`` members.
- erlmcp has ``tasks/create``: the ``Erlmcp…`` Structs.

Flat means that the members of the task are in the same object as ``_meta``, so these Structs derive from
`Result`. As params of a notification they have no ``resultType``.
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


# --- requests of both official designs ----------------------------------------------------------------------


class GetTaskRequestParams(RequestParams):
    task_id: str


class GetTaskPayloadRequestParams(RequestParams):
    """``tasks/result``: in 2025-11-25 it waits for the end of the task."""

    task_id: str


class CancelTaskRequestParams(RequestParams):
    """``reason`` is a vendor member of erlmcp."""

    task_id: str
    reason: str | UnsetType = UNSET


# --- 2025-11-25


class Task(Result):
    """The state of a task in 2025-11-25. Times are ISO 8601, ``ttl`` and ``poll_interval`` milliseconds.

    ``ttl`` counts from ``created_at``; ``None`` means that the task never expires.
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
    """Returned instead of the result, which ``tasks/result`` fetches later."""

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
"""The result of the original request: decode it with the result type of that method."""


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
    """Returned instead of the result of ``tools/call``: poll ``tasks/get`` until the status is terminal.

    ``omit_defaults`` is off so that the result type is always written.
    """

    result_type: str | UnsetType = "task"


class DetailedTask(ExtensionTask, kw_only=True):
    """The complete task: the result of ``tasks/get`` and the params of ``notifications/tasks``.

    ``input_required`` has ``input_requests``, ``completed`` a ``result``, ``failed`` an ``error``.
    """

    input_requests: InputRequests | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Error | UnsetType = UNSET


class UpdateTaskRequestParams(RequestParams):
    """Responses for a running task, under the keys of its ``input_requests``; partial responses are allowed."""

    task_id: str
    input_responses: InputResponses


# --- erlmcp


class ErlmcpTaskAction(Definition):
    """What to run: ``type`` names a task action, by default a tool; ``parameters`` are its arguments."""

    type: str
    parameters: Raw | UnsetType = UNSET


class ErlmcpTaskMetadata(Definition):
    """The members of a task's metadata that mean something; all others are kept and shown.
    ``timeout`` is in milliseconds; ``depends_on`` lists tasks that must complete first.
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
