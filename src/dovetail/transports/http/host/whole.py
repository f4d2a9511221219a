"""A whole answer in one write, where the host is the uvicorn we know.

ASGI sends the head and the body of a response in two messages, and uvicorn makes a system call of each: of
a quick call the second one is the dearest part. `respond` writes both at once. It is used only if uvicorn's own
`send` works with exactly the attributes it needs; with another version, another host or anything in between,
the answer takes the ordinary way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Respond = Callable[[Any, bytes], bool]

WHOLE: Final[dict[Any, Respond]] = {}
"""The type behind a host's ``send`` → how to answer 200 with JSON. False: `send` has to do it."""

LARGEST: Final = 64 << 10
"""Bytes of a body; copying a larger one would cost more than the second write."""

_NEEDED: Final = frozenset(
    {
        "access_log", "default_headers", "disconnected", "flow", "keep_alive", "message_event", "on_response",
        "response_complete", "response_started", "transport", "waiting_for_100_continue", "write_paused",
    }
)  # fmt: skip


def register() -> None:
    """Use uvicorn's httptools protocol in this way, if it is as we know it. Call it before serving."""
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    if set(RequestResponseCycle.send.__code__.co_names) >= _NEEDED:
        WHOLE[RequestResponseCycle] = _Responder()


class _Responder:
    """Remembers the lines that uvicorn adds to every head; they change once a second."""

    def __init__(self) -> None:
        self._headers: list[tuple[bytes, bytes]] = []
        self._lines = b""

    def __call__(self, cycle: Any, body: bytes) -> bool:
        if (
            cycle.response_started
            or cycle.disconnected
            or not cycle.keep_alive
            or cycle.access_log
            or cycle.flow.write_paused
            or len(body) > LARGEST
        ):
            return False
        if cycle.default_headers is not self._headers:
            self._headers = cycle.default_headers
            self._lines = b"".join(b"%b: %b\r\n" % pair for pair in self._headers)
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.transport.write(
            b"HTTP/1.1 200 OK\r\n%bcontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
            % (self._lines, len(body), body)
        )
        cycle.message_event.set()
        cycle.on_response()
        return True
