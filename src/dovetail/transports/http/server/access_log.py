"""The access log: one line for each HTTP request, with its status and its duration."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from .http_exchange import JSON_TYPE, Exchange, Headers, ResponseSink

log = logging.getLogger("dovetail.access")

LINK_PATHS: Final = ("/confirm/", "/uploads/")
"""Paths that end with the token of a link: the token is not logged, since it stands for the user."""
PATH_LENGTH: Final = 200
"""Characters of a path that are logged."""


class AccessLog:
    """Logs the requests of one app to the logger ``dovetail.access``.

    A line has no query string, no header and no token of a link: they may contain secrets. The line of an event stream
    follows its end.
    """

    def __init__(self, handle: Callable[[Exchange], Awaitable[None]]) -> None:
        self._handle = handle

    def has(self, exchange: Exchange) -> bool:
        """Whether the log has this exchange already."""
        return isinstance(exchange, LoggedExchange)

    async def handle(self, exchange: Exchange) -> None:
        logged, begun = LoggedExchange(exchange), time.perf_counter()
        try:
            await self._handle(cast("Exchange", logged))
        finally:
            client = "-" if exchange.peer is None else exchange.peer[0]
            took = (time.perf_counter() - begun) * 1000
            method, path = exchange.method, _shown(exchange.path)
            log.info("%s %s status=%s ms=%.1f client=%s", method, path, logged.status or "-", took, client)


def _shown(path: str) -> str:
    for link in LINK_PATHS:
        before, found, token = path.partition(link)
        if token:
            path = f"{before}{found}…"
    return path[:PATH_LENGTH]


class LoggedExchange:
    """An exchange that remembers the status of its response."""

    __slots__ = ("_exchange", "status")
    _exchange: Exchange
    status: int

    def __init__(self, exchange: Exchange) -> None:
        object.__setattr__(self, "_exchange", exchange)
        object.__setattr__(self, "status", 0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exchange, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._exchange, name, value)

    def _answered(self, status: int) -> None:
        object.__setattr__(self, "status", self.status or status)

    async def answer(
        self, status: int, body: bytes = b"", headers: Headers = (), kind: tuple[str, str] = JSON_TYPE
    ) -> None:
        self._answered(status)
        await self._exchange.answer(status, body, headers, kind)

    def reply(self, body: bytes) -> Awaitable[None] | None:
        self._answered(200)
        return self._exchange.reply(body)

    def stream(self, headers: Headers = ()) -> ResponseSink:
        self._answered(200)
        return self._exchange.stream(headers)
