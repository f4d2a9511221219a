"""Limits that all connections of one server share.

Code that buffers data for a peer acquires the amount first and releases it afterwards. When a limit is
reached, the newest request is refused; amounts acquired before stay. Limits of one connection are fields of
`Limits` and are checked where the connection keeps its state.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from msgspec import Struct

from ..errors import Refusal
from ..settings import Limits

UNCOUNTED_BYTES: Final = 64 << 10
"""Messages up to this many bytes do not count against `Limits.max_buffered_bytes`: the socket buffers of the
kernel hold them."""
RETRY_SECONDS: Final = 5.0
"""Seconds after which a refused peer may retry (``Retry-After``)."""


class SharedLimit(Struct, eq=False):
    """A counter of bytes or requests with a maximum."""

    maximum: int
    in_use: int = 0

    def acquire(self, amount: int = 1) -> bool:
        """Acquire ``amount``. Returns False if that would exceed the maximum. Call `release` afterwards."""
        if self.in_use + amount > self.maximum:
            return False
        self.in_use += amount
        return True

    def release(self, amount: int = 1) -> None:
        self.in_use -= amount

    @contextmanager
    def sending(self, size: int) -> Generator[Refusal | None, None, None]:
        """Count a response of ``size`` bytes while it is sent. Yields None, or the refusal to send instead.

        A response larger than the maximum is allowed while nothing else is buffered.
        """
        counted = 0 if size <= UNCOUNTED_BYTES else min(size, self.maximum)
        if not self.acquire(counted):
            yield busy("unsent responses")
            return
        try:
            yield None
        finally:
            self.release(counted)


class SharedLimits:
    """The shared limits of one server."""

    def __init__(self, limits: Limits) -> None:
        self.buffered_bytes = SharedLimit(limits.max_buffered_bytes)
        """Bytes of request bodies and unsent responses larger than `UNCOUNTED_BYTES`."""
        self.subscribed_bytes = SharedLimit(limits.max_subscribed_uri_bytes)
        """Bytes of the URIs that clients are subscribed to."""
        self.requests = SharedLimit(limits.max_concurrent_requests)
        """Requests whose handler runs, including cancelled ones."""
        self.disconnected_requests = SharedLimit(limits.max_disconnected_calls)
        """Legacy HTTP requests that continue after their client disconnected."""


class ServerBusy(Refusal):
    """A shared limit is reached. Over HTTP: status 503 with ``Retry-After``."""


def busy(what: str) -> ServerBusy:
    """Return the refusal for a request that exceeds the shared limit on ``what``."""
    return ServerBusy(1004, message=f"the server has too many {what}; retry later", retry_after=RETRY_SECONDS)


def too_many_requests() -> Refusal:
    """The refusal for a connection that has `Limits.max_requests_per_connection` requests in flight."""
    return Refusal(1008, message="too many requests are in flight on this connection")
