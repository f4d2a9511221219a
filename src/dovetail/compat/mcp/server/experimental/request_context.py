"""`Experimental`: what a handler of SDK 1.x knows about tasks, ``ctx.experimental``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from .....server import Context
from .....server.tasks.task_methods import EXTENSION
from ... import types
from ...shared.exceptions import McpError
from ..lowlevel.bridge import Bridge, task_id, task_work
from .task_context import ServerTaskContext

Work = Callable[[ServerTaskContext], Awaitable[types.CallToolResult]]


class Experimental:
    """Whether a request is to run as a task, and how it begins."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._id = task_id.get()

    @property
    def is_task(self) -> bool:
        return self._id is not None

    @property
    def task_metadata(self) -> types.TaskMetadata | None:
        return types.TaskMetadata() if self.is_task else None

    @property
    def client_supports_tasks(self) -> bool:
        told = self._context.client_capabilities
        return told.has("tasks") or told.has(EXTENSION)

    def validate_task_mode(
        self, tool_task_mode: types.TaskExecutionMode | None, *, raise_error: bool = True
    ) -> types.ErrorData | None:
        """What is wrong with calling a tool of this mode the way it is called; None when it is right.

        Raises:
            McpError: the same, with ``raise_error``.
        """
        wrong = None
        if tool_task_mode == "required" and not self.is_task:
            wrong = "This tool requires task-augmented invocation"
        elif tool_task_mode in (None, "forbidden") and self.is_task:
            wrong = "This tool does not support task-augmented invocation"
        if wrong is None:
            return None
        error = types.ErrorData(code=types.METHOD_NOT_FOUND, message=wrong)
        if raise_error:
            raise McpError(error)
        return error

    def validate_for_tool(self, tool: types.Tool, *, raise_error: bool = True) -> types.ErrorData | None:
        """As `validate_task_mode`, for the mode of a tool."""
        mode = None if tool.execution is None else tool.execution.taskSupport
        return self.validate_task_mode(mode, raise_error=raise_error)

    def can_use_tool(self, tool_task_mode: types.TaskExecutionMode | None) -> bool:
        """Whether this client can call a tool of this mode at all."""
        return tool_task_mode != "required" or self.client_supports_tasks

    async def run_task(
        self, work: Work, *, task_id: str | None = None, model_immediate_response: str | None = None
    ) -> types.CreateTaskResult:
        """Have ``work`` done once the handler has returned what this gives; the client has the task already.

        Raises:
            RuntimeError: there are no tasks here, or this is none.
        """
        server = self._context.server
        if not isinstance(server, Bridge) or server.tasks is None:
            raise RuntimeError("Task support not enabled. Call server.experimental.enable_tasks() first.")
        if self._id is None:
            raise RuntimeError(
                "Request is not task-augmented (no task field in params). "
                "The client must send a task-augmented request."
            )
        task = ServerTaskContext(self._context, self._id)
        task_work.set(lambda: _done(task, work))
        now = datetime.now(UTC)
        return types.CreateTaskResult(
            task=types.Task(taskId=self._id, status="working", createdAt=now, lastUpdatedAt=now, ttl=None)
        )


async def _done(task: ServerTaskContext, work: Work) -> Any:
    result = await work(task)
    if isinstance(task.outcome, McpError):
        raise task.outcome
    return task.outcome or result
