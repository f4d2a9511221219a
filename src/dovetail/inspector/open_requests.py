"""Elicitation and sampling requests that wait for an answer on the page."""

from __future__ import annotations

import asyncio
import time
from contextvars import ContextVar
from itertools import count
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..errors import DovetailError, ProtocolError
from .event_stream import PageEvents

QUESTIONS: Final = 100
"""Server requests that wait for an answer."""
QUESTION_BYTES: Final = 64 << 20
"""Bytes of the input requests that wait."""


calling: ContextVar[int | None] = ContextVar("calling", default=None)
"""The call in which the current task runs: a server of 2026-07-28 requests input in the answer to a call."""


class OpenRequest(Struct, eq=False, kw_only=True):
    """One request; ``kind`` is "elicit" or "sample"."""

    id: int
    connection: int
    kind: str
    params: Any
    at: float
    size: int
    answer: asyncio.Future[Any]
    call: int | None = None
    """The call of the page that it belongs to, if it is known."""

    def shown(self) -> dict[str, Any]:
        return {
            "id": self.id, "connection": self.connection, "kind": self.kind, "params": self.params, "at": self.at,
            "call": self.call,
        }  # fmt: skip


class OpenRequests:
    """All requests without an answer."""

    def __init__(self, news: PageEvents) -> None:
        self._news = news
        self._numbers = count(1)
        self.waiting: dict[int, OpenRequest] = {}

    async def ask(self, connection: int, kind: str, params: Any, *, call: int | None = None) -> Any:
        """Show a request and wait for its answer.

        Raises:
            ProtocolError: too many requests wait, or the user rejected it with an error.
        """
        size = len(msgspec.json.encode(params))
        held = sum(question.size for question in self.waiting.values())
        if len(self.waiting) >= QUESTIONS or held + size > QUESTION_BYTES:
            raise ProtocolError("internal_error", "too many requests already wait for an answer")
        question = OpenRequest(
            id=next(self._numbers), connection=connection, kind=kind, params=msgspec.to_builtins(params),
            at=time.time(), size=size, answer=asyncio.get_running_loop().create_future(),
            call=call,
        )  # fmt: skip
        self.waiting[question.id] = question
        self._news.tell("question", question=question.shown())
        try:
            return await question.answer
        finally:
            self.waiting.pop(question.id, None)
            self._news.tell("answered", question=question.id)

    def answer(self, id: int, value: Any) -> None:
        """Answer a request; ``{"error": text}`` rejects it.

        Raises:
            DovetailError: the request is no longer open.
        """
        question = self.waiting.get(id)
        if question is None or question.answer.done():
            raise DovetailError("this request is no longer open")
        if isinstance(value, dict) and "error" in value:
            question.answer.set_exception(ProtocolError("user_rejected", str(value["error"])))  # pyright: ignore[reportUnknownArgumentType]
        else:
            question.answer.set_result(value)
