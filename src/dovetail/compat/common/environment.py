"""Settings from the environment: ``FASTMCP_…``, and the ``.env`` of the working directory."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import BaseModel, TypeAdapter

PREFIX: Final = "FASTMCP_"
_OLD_PREFIX: Final = "FASTMCP_SERVER_"
_QUOTED: Final = re.compile(r"""(["'])(.*?)\1""")


def from_environment(kind: type[BaseModel], prefix: str = PREFIX) -> dict[str, Any]:
    """What the environment, or else the ``.env`` of the working directory, says for the fields of ``kind``."""
    file = Path(os.environ.get("FASTMCP_ENV_FILE", ".env"))
    said = {name.upper(): text for name, text in {**dotenv(file), **os.environ}.items()}
    found: dict[str, Any] = {}
    for name, field in kind.model_fields.items():
        text = said.get(prefix + name.upper(), said.get(_OLD_PREFIX + name.upper()))
        if text is not None:
            found[name] = _read(text, field.annotation)
    return found


def dotenv(path: Path) -> dict[str, str]:
    """The lines ``NAME=value`` of a file; nothing where there is none."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    found: dict[str, str] = {}
    for line in lines:
        name, mark, value = line.strip().removeprefix("export ").partition("=")
        if mark and not name.startswith("#"):
            quoted = _QUOTED.match(value.strip())
            found[name.strip()] = value.partition(" #")[0].strip() if quoted is None else quoted[2]
    return found


def _read(text: str, annotation: Any) -> Any:
    """Lists and the like are JSON; anything else pydantic reads from its text."""
    if any(
        getattr(part, "__origin__", part) in (list, set, dict) for part in (annotation, *get_args(annotation))
    ):
        try:
            return TypeAdapter(Any).validate_json(text)
        except ValueError:
            return [part.strip() for part in text.split(",") if part.strip()]
    return text
