"""Which commands of files may be run: a user said so once, and it is remembered by their hash."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from pathlib import Path
from typing import Any, cast

from .gateway_config import ConfigError, Entry


class Untrusted(ConfigError):
    """Nobody has said that a command may be run."""


def check_trusted(entry: Entry) -> None:
    """Look whether its command, if it has one, may be run.

    Raises:
        Untrusted: nobody has said so.
    """
    if entry.command and not is_trusted(entry):
        shown = shlex.join(entry.command).encode("unicode_escape").decode()
        raise Untrusted(f"nobody has said that {entry.name!r} may run: {shown} (use --yes)")


def is_trusted(entry: Entry) -> bool:
    """Whether somebody has said that the command of ``entry`` may be run, just as it is."""
    return _mark(entry) in _remembered()


def trust(entry: Entry) -> None:
    """Remember that it may be run."""
    path = _file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(json.dumps([*_remembered(), _mark(entry)]))
    path.chmod(0o600)


def _mark(entry: Entry) -> str:
    told = json.dumps([entry.command, entry.cwd, sorted(entry.env.items())])
    return hashlib.sha256(told.encode()).hexdigest()


def _file() -> Path:
    home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return Path(home) / "dovetail" / "trusted-commands.json"


def _remembered() -> list[str]:
    try:
        found: Any = json.loads(_file().read_text())
    except (OSError, ValueError):
        return []
    return [str(mark) for mark in cast("list[Any]", found)] if isinstance(found, list) else []
