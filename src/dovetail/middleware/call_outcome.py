"""The outcome of a call in one word, for circuit breakers, metrics, logs and audit."""

from __future__ import annotations

from typing import Any, Final, Literal

from ..errors import REFUSAL_CODES, ProtocolError, Refusal
from ..model import CallToolResult, CreateTaskResult, ErlmcpCreateTaskResult, ExtensionCreateTaskResult
from ..wire.dialects.dialect import VENDOR

Outcome = Literal["ok", "failed", "broken", "refused", "error", "cancelled"]
"""ok; failed: a tool error; broken: an unexpected exception or a timeout; refused: by middleware or the
handler; error: an invalid request; cancelled: by the client.
"""

_BROKEN: Final = frozenset(
    {"tool_timeout", "tool_execution_failed", "internal_error", "tool_dependency_failed"}
)
_KIND: Final = VENDOR + "kind"
_INCIDENT: Final = VENDOR + "incident"


def of_result(result: Any) -> Outcome:
    """Return the outcome of a call with a result."""
    if type(result) is not CallToolResult or result.is_error is not True:
        return "ok"
    meta = result.meta or {}
    if _INCIDENT in meta or meta.get(_KIND) in ("tool_timeout", "tool_dependency_failed"):
        return "broken"
    return "failed"


def created_task(result: Any) -> str | None:
    """Return the id of the task that the call created, or None."""
    if isinstance(result, CreateTaskResult):
        return result.task.task_id
    return result.task_id if isinstance(result, ExtensionCreateTaskResult | ErlmcpCreateTaskResult) else None


def of_error(error: BaseException) -> Outcome:
    """Return the outcome of a call that raised."""
    if isinstance(error, Refusal):
        return "refused"
    if isinstance(error, ProtocolError):
        return _of_protocol_error(error)
    return "broken" if isinstance(error, Exception) else "cancelled"


def _of_protocol_error(error: ProtocolError) -> Outcome:
    if error.code in REFUSAL_CODES:
        return "refused"
    data: Any = error.data
    incident = isinstance(data, dict) and "incident" in data
    if error.kind in ("tool_timeout", "tool_dependency_failed") or (error.kind in _BROKEN and incident):
        return "broken"
    return "failed" if error.kind == "tool_execution_failed" else "error"


def code_of(error: BaseException) -> int | None:
    """Return the error code that a peer gets on the newest revision."""
    return error.code if isinstance(error, Refusal | ProtocolError) else None
