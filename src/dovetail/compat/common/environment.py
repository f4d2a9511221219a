"""Settings from the environment: ``FASTMCP_…``, and the ``.env`` of the working directory."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter

PREFIX: Final = "FASTMCP_"
_OLD_PREFIX: Final = "FASTMCP_SERVER_"
_QUOTED: Final = re.compile(r"""(["'])(.*?)\1""")


class EnvironmentSettings(BaseModel):
    """Fields that may be given as keywords, or else in the environment."""

    model_config = ConfigDict(defer_build=True)

    def __init__(self, **given: Any) -> None:
        values = {**from_environment(type(self)), **given}
        if all(_is_plain(type(self), name, value) for name, value in values.items()):
            # There is nothing to convert; to build a validator takes longer than all else that a server begins with.
            self.__setstate__(type(self).model_construct(**values).__getstate__())
        else:
            super().__init__(**values)


def _is_plain(kind: type[BaseModel], name: str, value: Any) -> bool:
    """Whether a field takes ``value`` as it is; False where only its validator knows."""
    field = kind.model_fields.get(name)
    if field is None or (type(value) is type(field.default) and value == field.default):
        return True
    if get_origin(field.annotation) is Literal:
        return value in get_args(field.annotation)
    annotation: Any = field.annotation
    return annotation is Any or type(value) is annotation


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
