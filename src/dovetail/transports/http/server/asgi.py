"""The few words of ASGI the HTTP transport uses, and the plain answers it gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from ....core.admit import Admission
from ....errors import DovetailError
from ....wire.codec import Codec
from ....wire.frames import RequestId

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

JSON_TYPE: Final = (b"content-type", b"application/json")
TEXT_TYPE: Final = (b"content-type", b"text/plain; charset=utf-8")
EVENT_HEADERS: Final[Headers] = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
CLOSE: Final[Headers] = [(b"connection", b"close")]
_NO_HEADERS: Final[Headers] = []


async def answer(
    send: Send,
    status: int,
    body: bytes = b"",
    headers: Headers = _NO_HEADERS,
    kind: tuple[bytes, bytes] = JSON_TYPE,
) -> None:
    """Send one whole response; a body is JSON unless ``kind`` says otherwise."""
    length = (b"content-length", b"%d" % len(body))
    lines: Headers = [kind, length, *headers] if body else [length, *headers]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})


async def refuse(
    send: Send,
    admission: Admission,
    error: DovetailError,
    *,
    id: RequestId | None = None,
    status: int | None = None,
    headers: Headers = _NO_HEADERS,
    codec: Codec | None = None,
) -> None:
    """Answer with ``error`` in the words of ``codec``, or else of the newest revision served."""
    rejection = admission.refuse(error, id, status=status, codec=codec)
    await answer(send, rejection.status, rejection.body, [*headers, *retry(error, rejection.status)])


def retry(error: DovetailError, status: int) -> Headers:
    """When to come back, for the statuses that tell a client to."""
    if status not in (429, 503):
        return _NO_HEADERS
    seconds: float = getattr(error, "retry_after", None) or 1
    return [(b"retry-after", b"%d" % max(1, round(seconds)))]
