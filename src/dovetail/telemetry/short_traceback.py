"""Tracebacks for the author of a server: they begin in the author's file and leave out the frames of this package."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Final

_PACKAGE: Final = str(Path(__file__).parents[1]) + os.sep
_STDLIB: Final = os.path.dirname(os.__file__) + os.sep
_INSTALLED: Final = ("site-packages", "dist-packages")


def short_traceback(error: BaseException) -> str:
    """The traceback of ``error`` and of its causes. One without a frame of the author is complete: it is a bug here."""
    found = traceback.TracebackException.from_exception(error)
    _fold(found)
    return "".join(found.format()).rstrip()


def _fold(found: traceback.TracebackException) -> None:
    """Shorten the stacks of an exception, of its causes and of the members of a group."""
    # Causes form a chain without circles: `TracebackException` has cut those.
    for one in (found.__cause__, found.__context__, *(found.exceptions or ())):
        if one is not None:
            _fold(one)
    frames = list(found.stack)
    start = next((i for i, frame in enumerate(frames) if not _is_library(frame.filename)), None)
    if start is None and hasattr(found, "filename"):
        start = len(frames)  # a SyntaxError: its message names the file of the author
    if start is not None:
        kept = [frame for frame in frames[start:] if not frame.filename.startswith(_PACKAGE)]
        found.stack = traceback.StackSummary.from_list(kept)


def _is_library(file: str) -> bool:
    """Whether ``file`` is part of this package, of Python, or of what starts them."""
    if file.startswith((_PACKAGE, "<frozen", "uvloop/")) or file == sys.argv[0]:
        return True
    return file.startswith(_STDLIB) and not any(name in file for name in _INSTALLED)
