"""Which profile of JSON Schema a client gets, and tools in that profile.

A profile changes what is shown, never what is accepted: arguments are read with the true schema. Arguments for a strict
schema are translated back before that (`restored`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from ..errors import RegistrationError
from ..json_schema.profiles import PROFILES, Rules, rewritten, with_true_schema
from ..model import Tool

CLIENTS: Final[Mapping[str, str]] = {
    "gemini-cli": "gemini",
    "openai-mcp": "inline",
    "cursor": "inline",
    "windsurf": "inline",
}
"""By the beginning of what a client calls itself, in small letters: the profile of ``schemas="auto"``."""


class Profiles:
    """Which profile which client gets."""

    def __init__(self, schemas: str | Mapping[str, str]) -> None:
        chosen = CLIENTS if schemas == "auto" else {"": schemas} if isinstance(schemas, str) else schemas
        for name in chosen.values():
            if name not in PROFILES:
                raise RegistrationError(
                    f"there is no profile {name!r}: use auto or one of {', '.join(PROFILES)}"
                )
        # The longest beginning first.
        self._chosen = sorted(
            ((start.lower(), name) for start, name in chosen.items()), key=lambda row: -len(row[0])
        )

    def of(self, client_info: Mapping[str, Any] | None) -> str:
        """The profile for a client."""
        name = str((client_info or {}).get("name", "")).lower()
        return next((profile for start, profile in self._chosen if name.startswith(start)), "spec")


def shown(tool: Tool, profile: str) -> Tool:
    """A tool as ``profile`` shows it."""
    rules = PROFILES[profile]
    if rules is None:
        return tool
    changes: dict[str, Any] = {"input_schema": rewritten(tool.input_schema, rules)}
    if tool.output_schema is not UNSET and rules.inline:
        # A result is what it is: its schema may lose references, but nothing of what it says.
        changes["output_schema"] = rewritten(tool.output_schema, Rules(inline=True))
    return replace(tool, **changes)


def needs_restoring(profile: str) -> bool:
    """Whether arguments come otherwise than the true schema has them."""
    rules = PROFILES[profile]
    return rules is not None and rules.closed


def restored(arguments: Any, schema: Mapping[str, Any], profile: str) -> Any:
    """Arguments that were written for a strict schema, as the true one has them."""
    if arguments is UNSET or not needs_restoring(profile):
        return arguments
    try:
        given = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return arguments  # whoever reads them says what is wrong with them
    return Raw(msgspec.json.encode(with_true_schema(given, schema)))
