"""The HTTP client we need, as a protocol: one method, so that any library can stand behind it.

`transports.http.client.pool` implements it, loaded when the first HTTP target is opened; `adapters`, beside it, does
so for the clients of other libraries. Tests and applications put objects of their own here (``Client(http=…)``).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from ..errors import TransportError

# How a status that is the whole answer is called; all others are a plain transport error.
_KINDS = {
    401: "authentication_failed",
    403: "authorization_failed",
    406: "not_acceptable",
    413: "message_too_large",
    415: "unsupported_media_type",
    429: "rate_limited",
}


class StatusError(TransportError):
    """The server answered with an HTTP status and nothing of the protocol.

    ``retry_after`` is what it asked for, in seconds; ``challenge`` its ``WWW-Authenticate`` header.
    """

    def __init__(
        self, status: int, message: str, *, retry_after: float | None = None, challenge: str | None = None
    ) -> None:
        super().__init__(message, cause="status")
        self.kind = _KINDS.get(status, "transport_error")
        self.status = status
        self.retry_after = retry_after
        self.challenge = challenge


class Response(Protocol):
    """An answer whose headers have arrived. Close it, also after reading it."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Names are looked up without regard to case."""
        ...

    async def read(self, limit: int) -> bytes:
        """The whole body.

        Raises:
            TransportError: it breaks off (``cause="reset"``) or exceeds ``limit`` (``cause="protocol"``).
        """
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises `TransportError` when it breaks off."""
        ...

    def close(self) -> None:
        """Give the connection back, or cut it when the body was not read to its end."""
        ...


class Send(Protocol):
    """Send one request and return when the headers of the answer are there. Redirects are not followed."""

    async def __call__(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout: float | None = None,
    ) -> Response:
        """Raises `TransportError`: refused, unresolved, reset or cut before the headers came."""
        ...


@runtime_checkable
class Pinnable(Send, Protocol):
    """A `Send` that can be told which addresses a host has, so that it does not look the name up once more."""

    def pinned(self, addresses: Sequence[str]) -> AbstractAsyncContextManager[Send]:
        """One for requests to a single host at ``addresses``; with none there is no such host."""
        ...


@runtime_checkable
class Fetch(Protocol):
    """A pool of connections: enter it to send, leave it to close them all."""

    def session(self) -> AbstractAsyncContextManager[Send]: ...
