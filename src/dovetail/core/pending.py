"""Outgoing requests that wait for a response: their ids, their progress tokens, and recently used ids."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final

from ..errors import LocalProtocolError, Refusal
from ..settings import Limits
from ..wire.frames import RequestId

ID_ATTEMPTS: Final = 1000
"""Attempts to get an unused id from a custom id generator."""

_NOTHING: Final = float("-inf")


class PendingRequests:
    """The pending requests of one side of one connection. `Limits` bounds every table."""

    def __init__(self, limits: Limits, next_id: Callable[[], RequestId] | None = None) -> None:
        self.methods: dict[RequestId, str] = {}
        """Request id → method."""
        self._limits = limits
        self._next_id: Callable[[], RequestId] = itertools.count(1).__next__ if next_id is None else next_id
        self._tokens: dict[RequestId, RequestId] = {}
        self._progress: dict[RequestId, float] = {}
        """Active progress tokens with their last value."""
        self._tombstones: dict[RequestId, RequestId | None] = {}
        """Recently completed requests, with their progress tokens."""

    def fresh_id(self) -> RequestId:
        """Return an id for the next request.

        Raises:
            Refusal: `Limits.max_outgoing_requests` requests are pending already.
            LocalProtocolError: the id generator repeats itself.
        """
        if len(self.methods) >= self._limits.max_outgoing_requests:
            raise Refusal(1004, message="too many requests on this connection wait for a response")
        for _ in range(ID_ATTEMPTS):
            id = self._next_id()
            if id not in self.methods and id not in self._tombstones:
                return id
        raise LocalProtocolError(
            "internal_error", "the request id generator returned only ids that are in use"
        )

    def add(self, id: RequestId, method: str, token: RequestId | None = None) -> None:
        """Register a sent request; ``token`` is its progress token, if it has one."""
        self.methods[id] = method
        if token is not None:
            self._tokens[id] = token
            self._progress[token] = _NOTHING

    def settle(self, id: RequestId) -> str | None:
        """Remove a request that was answered or given up.

        Returns its method, or None if no request has this id.

        The id stays reserved for a while, so that a late response is not taken for that of another request.
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

    def ended_recently(self, id: RequestId) -> bool:
        """Whether a request with this id ended recently."""
        return id in self._tombstones

    def progress(self, token: RequestId, value: float) -> str | None:
        """Record progress. Returns what is wrong with it, or None."""
        last = self._progress.get(token)
        if last is None:
            expired = token in self._tombstones.values()
            return "progress_token_expired" if expired else "invalid_progress_token"
        if not value > last:
            return "stale_progress"
        self._progress[token] = value
        return None

    def clear(self) -> list[RequestId]:
        """Remove all requests and return their ids."""
        lost = list(self.methods)
        self.methods.clear()
        self._tokens.clear()
        self._progress.clear()
        return lost
