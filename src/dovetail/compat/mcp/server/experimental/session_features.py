"""``session.experimental``: questions that a client may answer by a task of its own, asked as plain ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import types

if TYPE_CHECKING:
    from ..session import ServerSession


class ExperimentalServerSessionFeatures:
    """The answer is the same: a client that can answer later can answer at once, too. Its tasks are not looked at."""

    def __init__(self, session: ServerSession) -> None:
        self._session = session

    async def elicit_as_task(
        self, message: str, requestedSchema: types.ElicitRequestedSchema, *, ttl: int = 60000
    ) -> types.ElicitResult:
        """Ask the user to fill in a form."""
        return await self._session.elicit(message, requestedSchema)

    async def create_message_as_task(
        self, messages: list[types.SamplingMessage], *, max_tokens: int, ttl: int = 60000, **options: Any
    ) -> types.CreateMessageResult | types.CreateMessageResultWithTools:
        """Ask the client's model."""
        return await self._session.create_message(messages, max_tokens=max_tokens, **options)
