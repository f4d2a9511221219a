"""Trust in the commands of configuration files: the user confirms each once, stored by its hash."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from pathlib import Path
from typing import Any, cast

from .gateway_config import ConfigError, ServerEntry


class Untrusted(ConfigError):
    """The command of an entry has not been confirmed."""


def check_trusted(entry: ServerEntry) -> None:
    """Check that the command of ``entry``, if it has one, is confirmed.

    Raises:
        Untrusted: it is not confirmed.
    """
    if entry.command and not is_trusted(entry):
        shown = shlex.join(entry.command).encode("unicode_escape").decode()
        raise Untrusted(f"the command of {entry.name!r} is not confirmed: {shown}; confirm it with --yes")


def is_trusted(entry: ServerEntry) -> bool:
    """Return whether exactly this command was confirmed."""
    return _mark(entry) in _remembered()


def trust(entry: ServerEntry) -> None:
    """Store the confirmation of its command."""
    path = _file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(json.dumps([*_remembered(), _mark(entry)]))
    path.chmod(0o600)


def _mark(entry: ServerEntry) -> str:
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
