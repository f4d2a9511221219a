"""`Fetch`: the HTTP client interface. Any HTTP library can implement it.

`transports.http.client.connection_pool` is the built-in implementation, imported for the first HTTP target.
`adapters` in the same package wraps other libraries. Tests and applications can pass their own
(``Client(http=…)``).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from ..errors import TransportError

# Error causes of HTTP statuses without a protocol message; other statuses are plain transport errors.
_KINDS = {
    401: "authentication_failed",
    403: "authorization_failed",
    406: "not_acceptable",
    413: "message_too_large",
    415: "unsupported_media_type",
    429: "rate_limited",
}


class StatusError(TransportError):
    """The server answered with an HTTP status and no protocol message.

    ``retry_after`` is the requested delay in seconds, ``challenge`` the ``WWW-Authenticate`` header.
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
    """A response whose headers have arrived. Always close it."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Header names are case-insensitive."""
        ...

    async def read(self, limit: int) -> bytes:
        """Return the whole body.

        Raises:
            TransportError: it is truncated (``cause="reset"``) or exceeds ``limit`` (``cause="protocol"``).
        """
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body in chunks. Raises: TransportError: it is truncated."""
        ...

    def close(self) -> None:
        """Return the connection to the pool, or close it if the body was not read completely."""
        ...


class Send(Protocol):
    """Sends one request and returns when the response headers arrive. Redirects are not followed."""

    async def __call__(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout: float | None = None,
    ) -> Response:
        """Send the request. Raises: TransportError: the connection failed before the response headers."""
        ...


@runtime_checkable
class Pinnable(Send, Protocol):
    """A `Send` that can use given addresses of a host instead of resolving its name."""

    def pinned(self, addresses: Sequence[str]) -> AbstractAsyncContextManager[Send]:
        """Return a `Send` for one host at ``addresses``; without addresses the host does not exist."""
        ...


@runtime_checkable
class Fetch(Protocol):
    """A connection pool: enter it to send requests, leave it to close all connections."""

    def session(self) -> AbstractAsyncContextManager[Send]: ...
