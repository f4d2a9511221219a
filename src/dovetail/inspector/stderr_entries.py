"""The stderr output of a server process as log entries: a log line and its traceback are one entry.

Output arrives in pieces, so the last entry waits a moment for the rest of it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Final

STDERR_PAUSE: Final = 0.1
"""Seconds after which the last entry is complete if no output follows."""
ENTRY_LINES: Final = 500
"""Lines of one entry; more lines are the next entry."""
LINE_SIZE: Final = 64_000
"""Characters of a line without an end that are stored before it becomes an entry."""
_TRACEBACK: Final = re.compile(r"(  \+ Exception Group )?Traceback \(most recent call last\):")
_LINKS: Final = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
_LEVEL: Final = re.compile(r"(?:\S+ )?\S*\b(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b")


class StderrEntries:
    """Splits output into entries; ``emit`` gets the level and the text of each."""

    def __init__(self, emit: Callable[[str, str], object]) -> None:
        self._emit = emit
        self._rest = ""
        self._entry: list[str] = []
        self._in_traceback = False
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, data: bytes) -> None:
        """Take output of the process."""
        *lines, self._rest = (self._rest + data.decode("utf-8", "replace")).split("\n")
        for line in lines:
            self._line(line.rstrip("\r"))
        if len(self._rest) > LINE_SIZE:
            self.flush()
        self._wait()

    def flush(self) -> None:
        """Emit what is still waiting."""
        if self._rest:
            rest, self._rest = self._rest, ""
            self._line(rest)
        self._end()

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(STDERR_PAUSE, self.flush)

    def _line(self, line: str) -> None:
        if not self._continues(line) or len(self._entry) >= ENTRY_LINES:
            self._end()
        if _TRACEBACK.match(line):
            self._in_traceback = True
        elif self._in_traceback and line and not line[0].isspace() and line not in _LINKS:
            self._in_traceback = False  # the exception, the last line of a traceback
        self._entry.append(line)

    def _continues(self, line: str) -> bool:
        if not self._entry:
            return False
        return (
            not line
            or line[0].isspace()
            or self._in_traceback
            or line in _LINKS
            or bool(_TRACEBACK.match(line))
        )

    def _end(self) -> None:
        text = "\n".join(self._entry).rstrip()
        self._entry, self._in_traceback = [], False
        if not text.strip():
            return
        found = _LEVEL.match(text)
        traceback = any(_TRACEBACK.match(line) for line in text.split("\n"))
        self._emit(found.group(1).lower() if found else "error" if traceback else "stderr", text)
