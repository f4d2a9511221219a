"""Tracebacks for the author of a server, without the frames of this package."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Final

_PACKAGE: Final = str(Path(__file__).parents[1]) + os.sep
_STDLIB: Final = os.path.dirname(os.__file__) + os.sep
_INSTALLED: Final = ("site-packages", "dist-packages")
_SCRIPTS: Final = os.path.dirname(sys.executable)
"""The directory of console scripts."""


def short_traceback(error: BaseException) -> str:
    """Return the traceback of ``error`` and its causes. A traceback without a frame of the author stays complete."""
    found = traceback.TracebackException.from_exception(error)
    _fold(found)
    return "".join(found.format()).rstrip()


def _fold(found: traceback.TracebackException) -> None:
    """Shorten the stacks of an exception, of its causes and of the members of a group."""
    # `TracebackException` has removed cycles of causes.
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
    """Return whether ``file`` is part of this package, of Python, or a console script that starts them."""
    if file.startswith((_PACKAGE, "<frozen", "uvloop/")):
        return True
    if os.path.dirname(file) == _SCRIPTS or os.path.basename(file) == "dovetail":
        return True
    return file.startswith(_STDLIB) and not any(name in file for name in _INSTALLED)
