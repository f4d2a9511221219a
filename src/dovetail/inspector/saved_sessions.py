"""Sessions that are kept on this machine, as files below the folder of the user's data."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

from ..errors import DovetailError

SESSIONS_SHOWN: Final = 200
"""Sessions that are listed, the newest first."""


_NAME: Final = re.compile(r"[\w][\w .-]{0,99}")


def folder() -> Path:
    home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return Path(home) / "dovetail" / "sessions"


def keep(name: str, text: str) -> str:
    """Keep a session under ``name``; the path of its file, which nobody else can read.

    Raises:
        DovetailError: it is no name, or there is one already.
    """
    path = _path(name)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise DovetailError(f"there is a session {name!r} already") from None
    except OSError as error:
        raise DovetailError(f"the session cannot be kept: {error.strerror}") from None
    return str(path)


def read(name: str) -> str:
    """The session of this name.

    Raises:
        DovetailError: there is none.
    """
    try:
        return _path(name).read_text("utf-8")
    except OSError:
        raise DovetailError(f"there is no session {name!r}") from None


def listed() -> list[dict[str, Any]]:
    """What there is, the newest first."""
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
            "a name has letters, digits, spaces, dots and dashes, and begins with one of the first"
        )
    return folder() / f"{name}.txt"
