"""Saved sessions: files below the data folder of the user."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

from ..errors import DovetailError

SESSIONS_SHOWN: Final = 200
"""Listed sessions, the newest first."""


_NAME: Final = re.compile(r"[\w][\w .-]{0,99}")


def folder() -> Path:
    home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return Path(home) / "dovetail" / "sessions"


def keep(name: str, text: str) -> str:
    """Save a session as ``name``, readable by the user only; return the path of the file.

    Raises:
        DovetailError: the name is not valid or already exists.
    """
    path = _path(name)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise DovetailError(f"a session {name!r} already exists: use another name") from None
    except OSError as error:
        raise DovetailError(f"the session cannot be saved: {error.strerror}") from None
    return str(path)


def read(name: str) -> str:
    """Return the session ``name``.

    Raises:
        DovetailError: it does not exist.
    """
    try:
        return _path(name).read_text("utf-8")
    except OSError:
        raise DovetailError(f"the session {name!r} does not exist") from None


def listed() -> list[dict[str, Any]]:
    """List the saved sessions, the newest first."""
    there = folder().glob("*.txt") if folder().is_dir() else ()
    found = [(path.stat(), path) for path in there if path.is_file()]
    found.sort(key=lambda one: one[0].st_mtime, reverse=True)
    return [
        {"name": path.stem, "size": state.st_size, "at": state.st_mtime * 1000}
        for state, path in found[:SESSIONS_SHOWN]
    ]


def _path(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise DovetailError(
            "use a name of letters, digits, spaces, dots and dashes that starts with a letter or digit"
        )
    return folder() / f"{name}.txt"
