"""Capture the messages of one connection and their HTTP headers.

An HTTP request runs in one task from its message to its response, so a context variable links them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Any, Final, cast

from ..client.http_client import Fetch, Pinnable, Response, Send
from ..errors import TransportError
from ..middleware.sensitive_data import MASK, is_secret_name
from .messages import CapturedMessage, MessageLog, Sender
from .recordings import masked_text
from .truncation import NAME_SIZE

HEADERS_KEPT: Final = 64
"""Header fields stored of one request."""


_NEEDED = "mcp-session-id"
"""Headers with names like secrets that are needed to find mistakes."""

_sent: ContextVar[CapturedMessage | None] = ContextVar("dovetail_inspector_sent", default=None)
_answer: ContextVar[dict[str, Any] | None] = ContextVar("dovetail_inspector_answer", default=None)


class MessageCapture:
    """The message callback and the HTTP client of one connection."""

    def __init__(self, log: MessageLog, connection: int, notify: Callable[[], None]) -> None:
        self.log = log
        self.connection = connection
        self._told = notify

    def on_message(self, sender: str, data: bytes) -> None:
        """The callback for `Client(on_message=…)`."""
        frame = self.log.add(self.connection, cast("Sender", sender), data)
        if sender == "client":
            _sent.set(frame)
        else:
            self.log.give_head(frame, _answer.get())
        self._told()

    def note(self, title: str, head: dict[str, Any]) -> None:
        self.log.add_http(self.connection, title, head)
        self._told()


class WatchedFetch:
    """An HTTP client for `Client(http=…)` that captures headers."""

    def __init__(self, inner: Fetch, wire: MessageCapture) -> None:
        self._inner = inner
        self._wire = wire

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[Send]:
        async with self._inner.session() as send:
            yield _WatchedSend(send, self._wire)


class _WatchedSend:
    def __init__(self, send: Send, wire: MessageCapture) -> None:
        self._send = send
        self._wire = wire

    async def __call__(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout: float | None = None,
    ) -> Response:
        asked = {"method": method, "url": masked_text(url), "headers": masked(headers)}
        frame = _sent.get()
        ours = frame is not None and body is not None and frame.data == body
        if ours and frame is not None:
            self._wire.log.give_head(frame, asked)
        try:
            response = await self._send(method, url, headers, body, timeout)
        except TransportError as error:
            self._wire.note(f"{method} failed", {**asked, "problem": error.message})
            raise
        answer = {"status": response.status, "headers": masked(response.headers)}
        _answer.set(answer)
        if not ours or response.status >= 300:
            self._wire.note(f"{method} {response.status}", {**asked, "answer": answer})
        return response

    def pinned(self, addresses: Sequence[str]) -> AbstractAsyncContextManager[Send]:
        """Return the client for authorization requests, which are not captured."""
        if not isinstance(self._send, Pinnable):
            raise TypeError("this HTTP client cannot connect to given addresses")
        return self._send.pinned(addresses)


def masked(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers without credentials."""
    kept = islice(headers.items(), HEADERS_KEPT)
    return {name[:NAME_SIZE]: _shown(name.lower(), value) for name, value in kept}


def _shown(name: str, value: str) -> str:
    secret = name != _NEEDED and (name == "dpop" or is_secret_name(name))
    return MASK if secret else masked_text(value[:NAME_SIZE])
