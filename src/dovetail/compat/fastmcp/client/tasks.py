"""Calls that go on while the client does something else: ``task = await client.call_tool(…, task=True)``."""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import Awaitable, Callable, Generator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from ...mcp import types as t
from .results import CallToolResult

if TYPE_CHECKING:
    from .client import Client

R = TypeVar("R")
_OVER: Final = frozenset({"completed", "failed", "cancelled"})
_LOOKS: Final = 0.05
"""Seconds between two looks at a task that is waited for."""


class Task(Generic[R]):
    """Something that was begun. Await it for its result."""

    def __init__(
        self, client: Client, task_id: str | None, finish: Callable[[], Awaitable[R]] | None = None,
        immediate_result: R | None = None,
    ) -> None:  # fmt: skip
        self.task_id = task_id or str(uuid.uuid4())
        self._client, self._finish = client, finish
        self._result = immediate_result
        self._known: t.GetTaskResult | None = None
        self._callbacks: list[Callable[[t.GetTaskResult], Any]] = []

    @property
    def returned_immediately(self) -> bool:
        """Whether the server answered at once."""
        return self._finish is None

    def on_status_change(self, callback: Callable[[t.GetTaskResult], Any]) -> None:
        """Have ``callback`` called with every state that is seen."""
        self._callbacks.append(callback)

    async def status(self) -> t.GetTaskResult:
        """How it stands."""
        if self._finish is None:
            now = datetime.now(UTC)
            return t.GetTaskResult(
                taskId=self.task_id,
                status="completed",
                createdAt=now,
                lastUpdatedAt=now,
                ttl=None,
                pollInterval=1000,
            )
        self._connected()
        found = await self._client.get_task_status(self.task_id)
        if self._known is None or found.status != self._known.status:
            self._known = found
            for callback in self._callbacks:
                said = callback(found)
                if inspect.isawaitable(said):
                    await said
        return found

    async def wait(self, *, state: str | None = None, timeout: float = 300.0) -> t.GetTaskResult:
        """Wait for its end, or for a state.

        Raises:
            TimeoutError: that took too long.
        """
        try:
            async with asyncio.timeout(timeout):
                while (found := await self.status()).status not in ({state} if state else _OVER):
                    if self._finish is None:
                        break
                    await asyncio.sleep(_LOOKS)
                return found
        except TimeoutError:
            words = state or "terminal state"
            raise TimeoutError(f"Task {self.task_id} did not reach {words} within {timeout}s") from None

    async def cancel(self) -> None:
        """Have it stopped."""
        if self._finish is not None:
            self._connected()
            await self._client.cancel_task(self.task_id)

    async def result(self) -> R:
        """What came of it."""
        if self._result is None:
            assert self._finish is not None
            self._connected()
            self._result = await self._finish()
        return self._result

    def _connected(self) -> None:
        if not self._client.is_connected():
            raise RuntimeError(
                "Cannot access task results outside client context. "
                "Task futures must be used within 'async with client:' block."
            )

    def __await__(self) -> Generator[Any, Any, R]:
        return self.result().__await__()


class ToolTask(Task[CallToolResult]):
    """A call of a tool."""


class PromptTask(Task[t.GetPromptResult]):
    """A prompt; servers of ours answer at once."""


class ResourceTask(Task[list[Any]]):
    """A resource that is read; servers of ours answer at once."""
