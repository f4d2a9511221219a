"""How peers see a task: the designs of 2025-11-25, of the 2026-07-28 extension and of erlmcp.

`TASK_VIEWS[task.design]` is a table of functions that convert a `TaskMachine` to the Structs of one design.
Differences of meaning are here too: an ``isError`` result is ``failed`` in 2025-11-25 and ``completed`` in
the extension; ``pending`` exists in erlmcp only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from .. import model as m
from ..errors import ProtocolError
from ..kinds import KINDS
from ..model.meta import RELATED_TASK
from ..shapes import is_object
from ..wire.dialects.dialect import VENDOR
from .task_machine import TaskMachine


class TaskView(Struct, frozen=True):
    """One task design. Each function returns the Struct to send."""

    created: Callable[[TaskMachine], Struct]
    """The response to the request that created the task."""
    state: Callable[[TaskMachine], Struct]
    """The result of ``tasks/get``."""
    cancelled: Callable[[TaskMachine], Struct]
    """The result of ``tasks/cancel``."""
    notification: str
    status: Callable[[TaskMachine], Struct]
    """The params of ``notification``."""
    waits: bool
    """Whether ``tasks/result`` waits for the end of the task. Otherwise it fails before the end."""
    cancels_again: bool
    """Whether ``tasks/cancel`` of an ended task succeeds. Otherwise it is an error."""


def iso_time(seconds: float) -> str:
    """Format a time as ISO 8601 in UTC with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def related_task_meta(task_id: str) -> dict[str, Any]:
    """Build the ``_meta`` that links a message of 2025-11-25 to its task."""
    return {RELATED_TASK: {"taskId": task_id}}


def outcome(task: TaskMachine) -> Raw | m.Error | None:
    """Return what the original request would have returned; None before the end."""
    if task.status == "completed":
        return cast("Raw", task.result)
    if task.status == "failed":
        return cast("m.Error", task.error)
    if task.status == "cancelled":
        error = ProtocolError("task_cancelled")
        why = {} if task.reason is None else {"reason": task.reason}
        return m.Error(error.code, error.message, data={"kind": error.kind, "taskId": task.public_id, **why})
    return None


def _members(task: TaskMachine) -> dict[str, Any]:
    """The members that both official designs share."""
    return {
        "task_id": task.public_id,
        "status": "working" if task.status == "pending" else task.status,
        "created_at": iso_time(task.created),
        "last_updated_at": iso_time(task.updated),
        "status_message": _unset(task.message),
        "meta": _more(task),
    }


def _more(task: TaskMachine) -> dict[str, Any] | UnsetType:
    """Vendor members for values that the official designs do not define."""
    known = {"progress": task.progress, "total": task.total, "timeout": task.timeout, "reason": task.reason}
    return {VENDOR + name: value for name, value in known.items() if value is not None} or UNSET


def _unset(value: Any) -> Any:
    return UNSET if value is None else value


# --- 2025-11-25 -------------------------------------------------------------------------------------------


def _core_members(task: TaskMachine) -> dict[str, Any]:
    members = {**_members(task), "ttl": task.ttl, "poll_interval": _unset(task.poll_interval)}
    failed = task.status == "completed" and task.is_error
    return {**members, "status": "failed"} if failed else members


def core_task(task: TaskMachine) -> m.Task:
    return m.Task(**_core_members(task))


def core_list(tasks: Sequence[TaskMachine], next_cursor: str | UnsetType = UNSET) -> m.ListTasksResult:
    """The result of ``tasks/list``."""
    return m.ListTasksResult([core_task(task) for task in tasks], next_cursor=next_cursor)


CORE: Final = TaskView(
    created=lambda task: m.CreateTaskResult(core_task(task)),
    state=lambda task: m.GetTaskResult(**_core_members(task)),
    cancelled=lambda task: m.CancelTaskResult(**_core_members(task)),
    notification="notifications/tasks/status",
    status=lambda task: m.TaskStatusNotificationParams(**_core_members(task)),
    waits=True,
    cancels_again=False,
)


# --- 2026-07-28 -------------------------------------------------------------------------------------------


def _extension_members(task: TaskMachine) -> dict[str, Any]:
    return {**_members(task), "ttl_ms": task.ttl, "poll_interval_ms": _unset(task.poll_interval)}


def detailed_task(task: TaskMachine) -> m.DetailedTask:
    """Build the extension's task object, with the members that its status requires."""
    return m.DetailedTask(
        **_extension_members(task),
        input_requests=task.input_requests if task.status == "input_required" else UNSET,
        result=task.result if task.status == "completed" else UNSET,
        error=task.error if task.status == "failed" else UNSET,
    )


EXTENSION: Final = TaskView(
    created=lambda task: m.ExtensionCreateTaskResult(**_extension_members(task)),
    state=detailed_task,
    cancelled=lambda task: m.EmptyResult(),
    notification="notifications/tasks",
    status=detailed_task,
    waits=False,
    cancels_again=True,
)


# --- erlmcp -----------------------------------------------------------------------------------------------

_ERLMCP_STATUS: Final = {"working": "processing", "input_required": "processing"}


def _erlmcp_status(task: TaskMachine) -> str:
    if task.status == "completed" and task.is_error:
        return "failed"
    return _ERLMCP_STATUS.get(task.status, task.status)


def _erlmcp_outcome(task: TaskMachine) -> dict[str, Any]:
    if task.status == "cancelled":
        error = cast("m.Error", outcome(task))
        return {
            "error": m.Error(KINDS["task_cancelled"].erlmcp or error.code, error.message, data=error.data)
        }
    return {"result": task.result, "error": task.error}


def erlmcp_task(task: TaskMachine) -> m.ErlmcpTask:
    return m.ErlmcpTask(
        task_id=task.public_id,
        status=_erlmcp_status(task),
        created_at=round(task.created * 1000),
        updated_at=round(task.updated * 1000),
        action=UNSET if task.name is None else m.ErlmcpTaskAction(task.name, task.parameters),
        metadata=task.metadata,
        expires_at=UNSET if task.expires is None else round(task.expires * 1000),
        progress=_unset(task.progress),
        total=_unset(task.total),
        timeout_ms=_unset(task.timeout),
        **_erlmcp_outcome(task),
    )


def erlmcp_list(tasks: Sequence[TaskMachine], cursor: str | UnsetType = UNSET) -> m.ErlmcpListTasksResult:
    return m.ErlmcpListTasksResult([erlmcp_task(task) for task in tasks], cursor, cursor)


def _ending(task: TaskMachine, error: m.Error) -> str:
    """Return the error kind of a task that ended without a result."""
    if task.status == "cancelled":
        return "task_cancelled"
    kind = error.data.get("kind") if is_object(error.data) else None
    return kind if kind in ("task_timeout", "task_dependency_failed") else "task_failed"


def erlmcp_result(task: TaskMachine) -> m.ErlmcpTaskResult:
    """Build the result of ``tasks/result``, which does not wait.

    Raises:
        ProtocolError: ``task_result_not_ready``, or how the task ended if it has no result.
    """
    found = outcome(task)
    if found is None:
        raise ProtocolError(
            "task_result_not_ready", data={"taskId": task.public_id, "status": _erlmcp_status(task)}
        )
    if isinstance(found, m.Error):
        why = task.reason or (found.data.get("reason") if is_object(found.data) else None)
        said = {"taskId": task.public_id} if why is None else {"taskId": task.public_id, "reason": why}
        raise ProtocolError(_ending(task, found), found.message, data=said)
    return m.ErlmcpTaskResult(msgspec.json.decode(found))


ERLMCP: Final = TaskView(
    created=lambda task: m.ErlmcpCreateTaskResult(task.public_id),
    state=lambda task: m.ErlmcpGetTaskResult(erlmcp_task(task)),
    cancelled=lambda task: m.EmptyResult(),
    notification="notifications/tasks/status",
    status=lambda task: m.ErlmcpTaskStatusNotificationParams(
        task.public_id, _erlmcp_status(task), **_erlmcp_outcome(task)
    ),
    waits=False,
    cancels_again=False,
)

TASK_VIEWS: Final[dict[str, TaskView]] = {"core": CORE, "extension": EXTENSION, "erlmcp": ERLMCP}
