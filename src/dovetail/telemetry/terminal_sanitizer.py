"""Escape control characters in texts of peers before they are printed on a terminal."""

import logging
import time
from typing import Any

_STEERING = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Control and format characters, including those for bidirectional text, unpaired surrogates, and line separators."""
_LINE = "%(asctime)s %(levelname)s %(message)s"
_HARMLESS = "\n\t\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"


def printable(text: str) -> str:
    """Return ``text`` with control characters escaped as in JSON, so that JSON documents stay valid."""
    if text.isprintable():
        return text
    from json import dumps  # imported late: a server needs it only for errors
    from unicodedata import category

    return "".join(dumps(c)[1:-1] if category(c) in _STEERING and c not in _HARMLESS else c for c in text)


def utc_time(seconds: float) -> str:
    """A time as log lines show it: UTC, to the millisecond."""
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{int(seconds % 1 * 1000):03}Z"


class _LogFormatter(logging.Formatter):
    """Lines with a time in UTC, and with short tracebacks."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        return utc_time(record.created)

    def formatException(self, ei: Any) -> str:  # noqa: N802
        from .short_traceback import short_traceback  # imported late: it is slow to import

        return super().formatException(ei) if ei[1] is None else short_traceback(ei[1])

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def log_to_stderr(level: str = "warning") -> None:
    """Send log messages to stderr, made `printable`, because they can contain texts of peers."""
    handler = logging.StreamHandler()
    handler.setFormatter(stderr_formatter())
    logging.basicConfig(level=level.upper(), handlers=[handler])


def stderr_formatter() -> logging.Formatter:
    """Return the format of log messages on stderr."""
    return _LogFormatter(_LINE)
