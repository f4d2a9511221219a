"""`ServerTaskContext`: what the work of a task may tell and ask."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from .....server import Context
from ... import types
from ...shared.exceptions import McpError
from ..session import ServerSession, session_of


class ServerTaskContext:
    """One task, seen from its work. Questions are the task's own: it waits with ``input_required``."""

    def __init__(self, context: Context, task_id: str) -> None:
        self._context = context
        self._session: ServerSession = session_of(context)
        self._steps = 0
        self._given_up = False
        now = datetime.now(UTC)
        self.task = types.Task(
            taskId=task_id, status="working", createdAt=now, lastUpdatedAt=now, ttl=None, pollInterval=None
        )
        self.outcome: types.CallToolResult | McpError | None = None
        """What the work said to be its end, where it did not just return it."""

    @property
    def task_id(self) -> str:
        return self.task.taskId

    @property
    def is_cancelled(self) -> bool:
        return self._given_up or self._context.cancelled

    def request_cancellation(self) -> None:
        """Have the work see that it is not wanted any more."""
        self._given_up = True

    async def update_status(self, message: str, *, notify: bool = True) -> None:
        """Say what is being done."""
        self._steps += 1
        self.task.statusMessage = message
        self.task.lastUpdatedAt = datetime.now(UTC)
        await self._context.report_progress(self._steps, None, message)

    async def complete(self, result: types.CallToolResult, *, notify: bool = True) -> None:
        """Be over, with this result."""
        self.task.status, self.outcome = "completed", result

    async def fail(self, error: str, *, notify: bool = True) -> None:
        """Be over, with this failure."""
        self.task.status = "failed"
        self.outcome = McpError(types.ErrorData(code=types.INTERNAL_ERROR, message=error))

    async def elicit(self, message: str, requestedSchema: types.ElicitRequestedSchema) -> types.ElicitResult:
        """Ask the user to fill in a form."""
        self._demand(types.ClientCapabilities(elicitation=types.ElicitationCapability()), "elicitation")
        return await self._session.elicit(message, requestedSchema)

    async def elicit_url(self, message: str, url: str, elicitation_id: str) -> types.ElicitResult:
        """Ask the user to visit ``url``."""
        self._demand(types.ClientCapabilities(elicitation=types.ElicitationCapability()), "elicitation")
        return await self._session.elicit_url(message, url, elicitation_id)

    async def create_message(
        self, messages: list[types.SamplingMessage], *, max_tokens: int, **options: Any
    ) -> types.CreateMessageResult | types.CreateMessageResultWithTools:
        """Ask the client's model."""
        self._demand(types.ClientCapabilities(sampling=types.SamplingCapability()), "sampling")
        return await self._session.create_message(messages, max_tokens=max_tokens, **options)

    async def elicit_as_task(
        self, message: str, requestedSchema: types.ElicitRequestedSchema, *, ttl: int = 60000
    ) -> types.ElicitResult:
        """As `elicit`: a client that can answer later by a task of its own can answer at once, too."""
        return await self.elicit(message, requestedSchema)

    async def create_message_as_task(
        self, messages: list[types.SamplingMessage], *, max_tokens: int, ttl: int = 60000, **options: Any
    ) -> types.CreateMessageResult | types.CreateMessageResultWithTools:
        """As `create_message`, and for the same reason."""
        return await self.create_message(messages, max_tokens=max_tokens, **options)

    def _demand(self, capability: types.ClientCapabilities, word: str) -> None:
        if not self._session.check_client_capability(capability):
            raise McpError(
                types.ErrorData(
                    code=types.INVALID_REQUEST, message=f"Client does not support {word} capability"
                )
            )
