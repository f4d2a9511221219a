"""Requests of our own that wait for an answer: their ids, their progress, and the ids that are used up."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final

from ..errors import LocalProtocolError, Refusal
from ..settings import Limits
from ..wire.frames import RequestId

ID_ATTEMPTS: Final = 1000
"""How often a generator of ids may come up with one that is taken."""

_NOTHING: Final = float("-inf")


class Pending:
    """The requests one side of one connection has out. Every table has a bound from `Limits`."""

    def __init__(self, limits: Limits, next_id: Callable[[], RequestId] | None = None) -> None:
        self.methods: dict[RequestId, str] = {}
        """Id → method of what waits."""
        self._limits = limits
        self._next_id: Callable[[], RequestId] = itertools.count(1).__next__ if next_id is None else next_id
        self._tokens: dict[RequestId, RequestId] = {}
        self._progress: dict[RequestId, float] = {}
        """Active progress tokens with the last value seen."""
        self._tombstones: dict[RequestId, RequestId | None] = {}
        """Requests that were settled not long ago, and their progress tokens."""

    def fresh_id(self) -> RequestId:
        """An id for the next request.

        Raises:
            Refusal: `Limits.max_outgoing_requests` requests wait already.
            LocalProtocolError: the generator of ids repeats itself.
        """
        if len(self.methods) >= self._limits.max_outgoing_requests:
            raise Refusal(1004, message="too many requests wait for an answer on this connection")
        for _ in range(ID_ATTEMPTS):
            id = self._next_id()
            if id not in self.methods and id not in self._tombstones:
                return id
        raise LocalProtocolError("internal_error", "the generator of request ids repeats itself")

    def add(self, id: RequestId, method: str, token: RequestId | None = None) -> None:
        """A request was sent; ``token`` is its progress token, if it has one."""
        self.methods[id] = method
        if token is not None:
            self._tokens[id] = token
            self._progress[token] = _NOTHING

    def settle(self, id: RequestId) -> str | None:
        """A request was answered or given up; return its method, None when nothing waits under this id.

        The id is remembered for a while: a late answer must not be taken for that of another request.
        """
        method = self.methods.pop(id, None)
        if method is None:
            return None
        token = self._tokens.pop(id, None)
        if token is not None:
            self._progress.pop(token, None)
        self._tombstones[id] = token
        if len(self._tombstones) > self._limits.max_tombstones:
            del self._tombstones[next(iter(self._tombstones))]
        return method

    def was_ours(self, id: RequestId) -> bool:
        """Whether a request with this id was settled not long ago."""
        return id in self._tombstones

    def progress(self, token: RequestId, value: float) -> str | None:
        """Note progress; return what is wrong with it, None when nothing is."""
        last = self._progress.get(token)
        if last is None:
            expired = token in self._tombstones.values()
            return "progress_token_expired" if expired else "invalid_progress_token"
        if not value > last:
            return "stale_progress"
        self._progress[token] = value
        return None

    def clear(self) -> list[RequestId]:
        """Give up everything; return the ids that waited."""
        lost = list(self.methods)
        self.methods.clear()
        self._tokens.clear()
        self._progress.clear()
        return lost
