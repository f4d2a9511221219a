"""``session.experimental``: calls that run as tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
from pydantic import BaseModel
from typing_extensions import TypeVar

from .....client import Client
from ... import types
from ...shared.experimental.tasks.polling import poll_until_terminal

R = TypeVar("R", bound=BaseModel)


class ExperimentalClientFeatures:
    """Tasks of the server that a session speaks to; ``answered`` is how the session fails."""

    def __init__(self, client: Client, answered: Callable[[Any], Awaitable[Any]]) -> None:
        self._client = client
        self._answered = answered

    async def call_tool_as_task(
        self, name: str, arguments: dict[str, Any] | None = None, *, ttl: int = 60_000,
        meta: dict[str, Any] | None = None,
    ) -> types.CreateTaskResult:  # fmt: skip
        """Have a tool run as a task."""
        options: dict[str, Any] = {"ttl": ttl, "check": False} | ({"meta": meta} if meta else {})
        handle = await self._answered(self._client.call_tool(name, arguments, task=True, **options))
        return types.CreateTaskResult(task=types.Task.model_validate(msgspec.to_builtins(handle.task)))

    async def get_task(self, task_id: str) -> types.GetTaskResult:
        """How a task stands."""
        handle = self._client.task(task_id)
        await self._answered(handle.status())
        return types.GetTaskResult.model_validate(msgspec.to_builtins(handle.task))

    async def get_task_result(self, task_id: str, result_type: type[R]) -> R:
        """What came of a task; waits for it, and answers its questions meanwhile."""
        done = await self._answered(self._client.task(task_id).result())
        return result_type.model_validate(msgspec.to_builtins(done.raw))

    async def list_tasks(self, cursor: str | None = None) -> types.ListTasksResult:
        """The tasks that the server keeps; pages are followed."""
        found = await self._answered(self._client.list_tasks())
        return types.ListTasksResult.model_validate({"tasks": msgspec.to_builtins(found)})

    async def cancel_task(self, task_id: str) -> types.CancelTaskResult:
        """Have a task stopped."""
        await self._answered(self._client.task(task_id).cancel())
        return types.CancelTaskResult.model_validate((await self.get_task(task_id)).model_dump())

    def poll_task(self, task_id: str) -> AsyncIterator[types.GetTaskResult]:
        """Each state that is seen until the task is over."""
        return poll_until_terminal(self.get_task, task_id)
