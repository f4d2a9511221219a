"""Messages in both directions, with time, size and, over HTTP, their headers."""

from __future__ import annotations

import time
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, field

from .truncation import NAME_SIZE

FRAMES_KEPT: Final = 120_000
"""Stored messages of all connections; the oldest are removed to make room."""
FRAME_BYTES: Final = 256 << 20
"""Bytes of all stored frames."""
FRAMES_TRIMMED: Final = 4_000
"""Frames removed at once, so that making room costs little."""
REQUESTS_OPEN: Final = 10_000
"""Pending requests whose duration is measured."""
ROWS_SENT: Final = 5_000
"""Messages in one event for a page."""


Sender = Literal["client", "server"]
Row = list[Any]


class _MessageEnvelope(Struct):
    method: str = ""
    id: Any = UNSET
    error: Raw | None = None
    params: Raw = Raw()
    result: Raw = Raw()


class _Subject(Struct):
    """What a request is about."""

    name: Any = None
    uri: Any = None


class _Outcome(Struct):
    is_error: Any = field(name="isError", default=None)


class CapturedMessage(Struct, eq=False, kw_only=True):
    """One message, or one HTTP exchange without a message."""

    number: int
    at: float
    connection: int
    sender: Sender
    data: bytes
    kind: str
    """request, response, error, notification, batch, http or unreadable."""
    method: str = ""
    subject: str = ""
    """The name or URI in the params of the request."""
    failed: bool = False
    """Whether it is the result of a tool that failed."""
    id: Any = None
    seconds: float | None = None
    """For a response: seconds since the request."""
    head: dict[str, Any] | None = None
    """The headers of its HTTP request or response."""
    weight: int = 0
    """Bytes of the message and its headers."""

    def row(self) -> Row:
        """Return the row for the list."""
        took = None if self.seconds is None else round(self.seconds * 1000, 2)
        return [
            self.number, round(self.at * 1000, 1), self.connection, int(self.sender == "server"),
            len(self.data), self.kind, self.method, self.id, took, self.subject, int(self.failed),
        ]  # fmt: skip


class MessageLog:
    """The latest messages of all connections, numbered from 1."""

    def __init__(self) -> None:
        self._frames: list[CapturedMessage] = []
        self._bytes = 0
        self._open: dict[tuple[int, Sender, Any], tuple[str, str, float]] = {}
        self.last = 0
        """The number of the newest message."""

    @property
    def first(self) -> int:
        """The number of the oldest stored message."""
        return self._frames[0].number if self._frames else self.last + 1

    def add(self, connection: int, sender: Sender, data: bytes) -> CapturedMessage:
        """Store a message."""
        frame = CapturedMessage(
            number=self.last + 1,
            at=time.time(),
            connection=connection,
            sender=sender,
            data=bytes(data),
            kind="",
        )
        self._describe(frame)
        return self._keep(frame)

    def add_http(self, connection: int, title: str, head: dict[str, Any]) -> CapturedMessage:
        """Store an HTTP exchange without a message of the client: a stream, a DELETE, a rejection."""
        return self._keep(
            CapturedMessage(
                number=self.last + 1, at=time.time(), connection=connection, sender="client", data=b"",
                kind="http", method=title, head=head,
            )
        )  # fmt: skip

    def _keep(self, frame: CapturedMessage) -> CapturedMessage:
        self.last = frame.number
        self._frames.append(frame)
        self.give_head(frame, frame.head)
        if len(self._frames) > FRAMES_KEPT or self._bytes > FRAME_BYTES:
            self._make_room()
        return frame

    def give_head(self, frame: CapturedMessage, head: dict[str, Any] | None) -> None:
        """Truncate headers of a server."""
        frame.head, before = head, frame.weight
        frame.weight = len(frame.data) + (0 if head is None else len(msgspec.json.encode(head)))
        if frame.number >= self.first:
            self._bytes += frame.weight - before

    def _make_room(self) -> None:
        count = FRAMES_TRIMMED if len(self._frames) > FRAMES_KEPT else 0
        size = self._bytes - sum(frame.weight for frame in self._frames[:count])
        while size > FRAME_BYTES and count < len(self._frames) - 1:
            size -= self._frames[count].weight
            count += 1
        del self._frames[:count]
        self._bytes = size

    def _describe(self, frame: CapturedMessage) -> None:
        """Set the kind of a message, and match a response to its request."""
        try:
            if frame.data[:1] == b"[":
                frame.kind = "batch"
                return
            found = msgspec.json.decode(frame.data, type=_MessageEnvelope)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            frame.kind = "unreadable"
            return
        identifier = found.id if isinstance(found.id, str | int | float) else None
        if isinstance(identifier, str):
            identifier = identifier[:NAME_SIZE]
        frame.method, frame.id = found.method[:NAME_SIZE], identifier
        if found.method:
            frame.subject = _subject_of(found.params)
            frame.kind = "notification" if found.id is UNSET else "request"
            if identifier is not None and len(self._open) < REQUESTS_OPEN:
                self._open[frame.connection, frame.sender, identifier] = (
                    frame.method,
                    frame.subject,
                    frame.at,
                )
            return
        frame.kind = "response" if found.error is None else "error"
        asker: Sender = "client" if frame.sender == "server" else "server"
        asked = self._open.pop((frame.connection, asker, identifier), None)
        if asked is not None:
            frame.method, frame.subject, frame.seconds = asked[0], asked[1], frame.at - asked[2]
        # A tool that failed is a result, not an error. Only small parts of large results are read.
        if frame.method == "tools/call" and b'"isError"' in frame.data:
            frame.failed = _read(found.result, _Outcome()).is_error is True

    def forget_requests(self, connection: int) -> None:
        """Forget pending requests of a closed connection."""
        for key in [key for key in self._open if key[0] == connection]:
            del self._open[key]

    def since(self, number: int, limit: int = ROWS_SENT) -> list[CapturedMessage]:
        """Return the messages after ``number``, the oldest first."""
        start = max(0, number + 1 - self.first)
        return self._frames[start : start + limit]

    def get(self, number: int) -> CapturedMessage | None:
        index = number - self.first
        return self._frames[index] if 0 <= index < len(self._frames) else None

    def of(self, connection: int) -> list[CapturedMessage]:
        return [frame for frame in self._frames if frame.connection == connection]


T = TypeVar("T", bound=Struct)


def _read(raw: Raw, default: T) -> T:
    """Return the members of an object that ``default`` has; ``default`` if ``raw`` is not an object."""
    try:
        return msgspec.json.decode(raw, type=type(default))
    except (msgspec.MsgspecError, RecursionError):
        return default


def _subject_of(params: Raw) -> str:
    found = _read(params, _Subject())
    subject = found.name if isinstance(found.name, str) else found.uri
    return subject[:NAME_SIZE] if isinstance(subject, str) else ""
