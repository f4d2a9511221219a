"""Newline framing: one message per line, on pipes and byte streams.

Feed what the transport read, then take lines until None is returned. The chunks of the transport do not
affect the lines. At the end of the stream `finish` returns the last line, which may lack its newline.
"""

from __future__ import annotations

from .frames import too_large

_WHITESPACE = b" \t\r"


class LineBuffer:
    """Cut a byte stream into lines of at most ``limit`` bytes."""

    __slots__ = ("_data", "_limit", "_searched", "_start")

    def __init__(self, limit: int) -> None:
        self._data = bytearray()
        self._start = 0  # everything before was returned already
        self._searched = 0  # no newline lies between start and here
        self._limit = limit

    def __len__(self) -> int:
        """Number of buffered bytes."""
        return len(self._data) - self._start

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Append received bytes. Call `next_line` until it returns None before feeding more."""
        if self._start:
            # Returned lines are removed once per feed and not once per line: that would be quadratic.
            del self._data[: self._start]
            self._searched -= self._start
            self._start = 0
        self._data += data

    def next_line(self) -> bytes | None:
        """Return the next line that is not empty, without its end, or None to ask for more data.

        Raises:
            RemoteProtocolError: (``message_too_large``) the line exceeds the limit, finished or not. Close
                the connection: the rest of the stream cannot be framed.
        """
        while True:
            end = self._data.find(b"\n", self._searched)
            size = (end if end >= 0 else len(self._data)) - self._start
            if size > self._limit and not self._fits(end):
                raise too_large(self._limit)
            if end < 0:
                # Resume here next time: rescanning a slow sender's line would be quadratic.
                self._searched = len(self._data)
                return None
            line = bytes(self._data[self._start : end]).rstrip(b"\r")
            self._start = self._searched = end + 1
            if line.strip(_WHITESPACE):
                return line

    def finish(self) -> bytes | None:
        """Return the last line if the stream ended without a newline.

        Call it after `next_line` returned None.
        """
        line = bytes(self._data[self._start :]).rstrip(b"\r")
        self._data.clear()
        self._start = self._searched = 0
        return line if line.strip(_WHITESPACE) else None

    def _fits(self, end: int) -> bool:
        """Whether a line one byte over the limit fits without the carriage return at its end."""
        stop = end if end >= 0 else len(self._data)
        return stop - self._start == self._limit + 1 and self._data[stop - 1] == 0x0D
