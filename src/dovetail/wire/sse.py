"""Server-sent events: the parser for clients and the encoder for servers.

The parser follows the WHATWG rules. Lines end in CR, LF or CRLF. A leading byte order mark is skipped. A line
that starts with a colon is a comment. Several ``data`` lines are joined with newlines. An ``id`` with a NUL
is ignored, and so is a ``retry`` that is not all digits. WHATWG drops an event without data, but MCP needs
its id for resumption ("priming" events). So the parser also returns an `SseEvent` for an id or a retry time
alone, with ``data`` None.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from ..errors import RemoteProtocolError
from ..lazy_pattern import lazy_pattern
from .frames import CARRIAGE_RETURN, LINE_FEED, too_large

LONGEST_EVENT_ID: Final = 1024
"""Characters of an event id: it is stored and sent back."""


EVENT_LINES: Final = 64 << 10
"""Maximum number of lines of one event."""

COMMENT = b":\n\n"
"""A comment that keeps an idle stream alive (heartbeat)."""

_BOM = b"\xef\xbb\xbf"
_IDLE = lazy_pattern(rb"(?:[\r\n]++|:[^\r\n]*+[\r\n]++)++")
"""Empty lines and comments between two events.

They have no meaning, but a stream may consist mostly of them.
"""


class SseEvent(Struct, frozen=True):
    """One event. ``data`` None: the event only has an id or a retry time."""

    data: bytes | None
    event: str = "message"
    id: str | None = None
    """The id that this event set; remember the last one that is not None."""
    retry: int | None = None
    """Milliseconds to wait before reconnecting."""


class EventParser:
    """Parses the bytes of an event stream into events of at most ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line = bytearray()
        self._searched = 0
        self._after_cr = False
        self._begun = False
        self._size = 0
        self._data: list[bytes] = []
        self._event = ""
        self._id: str | None = None
        self._retry: int | None = None

    def feed(self, data: bytes) -> Iterable[SseEvent]:
        """Parse received bytes and return the events they complete.

        Raises:
            RemoteProtocolError: (``message_too_large``) an event exceeds the limit. Close the stream. Events
                before it are returned first; then iterating raises the error.
        """
        events: list[SseEvent] = []
        try:
            for line in self._lines(data):
                event = self._take(line)
                if event is not None:
                    events.append(event)
        except RemoteProtocolError as error:
            if not events:
                raise
            return _and_then(events, error)
        return events

    def finish(self) -> None:
        """End the stream. WHATWG requires dropping an event without a final empty line."""
        self._line.clear()
        self._searched = 0
        self._reset()

    def _lines(self, data: bytes) -> Iterator[bytes]:
        buffer = self._line
        if self._after_cr and data:
            self._after_cr = False
            if data[:1] == b"\n":
                data = data[1:]
        buffer += data
        if not self._begun:
            if len(buffer) < 3 and _BOM.startswith(buffer):
                return
            self._begun = True
            if buffer.startswith(_BOM):
                del buffer[:3]
        start = 0
        for end, after in self._line_ends(buffer):
            self._check(end - start)
            yield bytes(buffer[start:end])
            start = after
        del buffer[:start]
        self._searched = len(buffer)
        self._check(len(buffer))

    def _line_ends(self, buffer: bytearray) -> Iterator[tuple[int, int]]:
        """Yield the end of each line and the start of the next.

        Each byte is scanned a fixed number of times.
        """
        position, newline, fresh = self._searched, -1, not self._searched
        while True:
            if fresh and self._between and (idle := _IDLE.match(buffer, position)):
                self._after_cr = idle.end() == len(buffer) and buffer[-1] == 0x0D
                yield position, idle.end()  # as one empty line
                position = idle.end()
            fresh = True
            if newline < position:
                found = buffer.find(b"\n", position)
                newline = found if found >= 0 else len(buffer)
            end = buffer.find(b"\r", position, newline)
            if end < 0:
                end = newline
            if end == len(buffer):
                return
            position = end + 1
            if buffer[end] == 0x0D:
                if position == len(buffer):
                    self._after_cr = True  # an LF may follow in the next chunk
                elif buffer[position] == 0x0A:
                    position += 1
            yield end, position

    @property
    def _between(self) -> bool:
        """Whether the current event is still empty."""
        return not (self._data or self._event) and self._id is None and self._retry is None

    def _take(self, line: bytes) -> SseEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            self._size += len(value) + 1
            self._data.append(value)
            if len(self._data) > EVENT_LINES:
                raise RemoteProtocolError("message_too_large", f"the event exceeds {EVENT_LINES} lines")
        elif name == b"event":
            self._event = value.decode(errors="replace")
        elif name == b"id" and b"\0" not in value and len(value) <= LONGEST_EVENT_ID:
            self._id = value.decode(errors="replace")
        elif name == b"retry" and value.isdigit() and len(value) <= 12:
            self._retry = int(value)
        return None

    def _dispatch(self) -> SseEvent | None:
        data = b"\n".join(self._data) or None
        event = None
        if data is not None or self._id is not None or self._retry is not None:
            event = SseEvent(data, self._event or "message", self._id, self._retry)
        self._reset()
        return event

    def _reset(self) -> None:
        self._size = 0
        self._data = []
        self._event = ""
        self._id = self._retry = None

    def _check(self, more: int) -> None:
        if self._size + more > self._limit + 16:  # field names do not count
            raise too_large(self._limit, "event")


def _and_then(events: list[SseEvent], error: RemoteProtocolError) -> Iterator[SseEvent]:
    yield from events
    raise error


def encode_event(
    data: bytes, *, id: str | None = None, event: str | None = None, retry: int | None = None
) -> bytes:
    """Encode one event. ``data`` may have several lines; empty data makes a priming event.

    Raises:
        ValueError: the id or the event name contains a line end or a NUL.
    """
    if LINE_FEED in data or CARRIAGE_RETURN in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", b"\ndata: ")
    text = b"data: " + data + b"\n\n"
    if retry is not None:
        text = b"retry: %d\n%b" % (retry, text)
    if id is not None:
        text = b"id: %b\n%b" % (id.encode() if id.isprintable() else _one_line(id), text)
    return text if event is None else b"event: %b\n%b" % (_one_line(event), text)


def _one_line(value: str) -> bytes:
    if "\n" in value or "\r" in value or "\0" in value:
        raise ValueError("id and name of an event must not contain line breaks or NUL")
    return value.encode()
