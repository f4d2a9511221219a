"""Crash reports: when a serving process ends with an unexpected exception, log it and write a file.

The file has the exception and the traceback, but no values of variables and nothing that looks like a secret. It is in
``DOVETAIL_CRASH_DIR``, or in ``dovetail/crashes`` below ``$XDG_STATE_HOME`` (``~/.local/state``), readable by its
owner only.
"""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING, Any, Final

from ..errors import DovetailError

CRASH_REPORTS: Final = 20
"""The number of crash reports; the oldest are removed."""

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger("dovetail")

FOLDER: Final = "DOVETAIL_CRASH_DIR"


def report(error: Exception) -> None:
    """Log an unexpected exception and write a report of it. A `DovetailError` explains itself."""
    if isinstance(error, DovetailError):
        return
    log.error("server crashed: %s", type(error).__name__)
    path = write(error)
    if path is not None:
        log.error("crash report written to %s", path)


def write(error: BaseException) -> Path | None:
    """Write the report of ``error``; None if it cannot be written."""
    import json  # imported late: a server needs them only here
    from pathlib import Path

    folder = Path(os.environ.get(FOLDER) or os.path.join(_state(), "dovetail", "crashes"))
    path = folder / f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.json"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old in sorted(folder.glob("crash-*.json"))[: 1 - CRASH_REPORTS]:
            old.unlink(missing_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(_report(error), file, indent=1)
    except OSError as problem:
        log.warning("crash report cannot be written: %s", problem.strerror)
        return None
    return path


def _state() -> str:
    return os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")


def _report(error: BaseException) -> dict[str, Any]:
    # Imported late: they take a tenth of the start time of a server.
    import platform
    import traceback
    from importlib.metadata import version

    from ..middleware.sensitive_data import redacted

    errors: list[dict[str, Any]] = []
    one: BaseException | None = error
    while one is not None and len(errors) < CRASH_REPORTS:
        frames = traceback.extract_tb(one.__traceback__)
        errors.append(
            {
                "type": f"{type(one).__module__}.{type(one).__qualname__}",
                "message": redacted(str(one)),
                "frames": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
            }
        )
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "dovetail": version("dovetail-mcp"),
        "python": platform.python_version(),
        "system": platform.platform(),
        "pid": os.getpid(),
        "errors": errors,
    }
