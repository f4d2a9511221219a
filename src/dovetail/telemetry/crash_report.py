"""The report of a crash, loaded by the first one: what it needs is a tenth of the time a server takes to start."""

from __future__ import annotations

import json
import logging
import os
import platform
import time
import traceback
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from ..layers.redaction import redacted
from ..settings import CRASH_REPORTS

log = logging.getLogger("dovetail")

FOLDER: Final = "DOVETAIL_CRASH_DIR"


def write(error: BaseException) -> Path | None:
    """Write the report of ``error``; None if there is no place for it."""
    folder = Path(os.environ.get(FOLDER) or _state() / "dovetail" / "crashes")
    path = folder / f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.json"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old in sorted(folder.glob("crash-*.json"))[: 1 - CRASH_REPORTS]:
            old.unlink(missing_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(_report(error), file, indent=1)
    except OSError as problem:
        log.warning("no report of the crash could be written: %s", problem.strerror)
        return None
    return path


def _state() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")


def _report(error: BaseException) -> dict[str, Any]:
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
