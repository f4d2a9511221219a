"""JSON Schema profiles: the schema dialect that a client supports, and tools converted to it.

A profile changes only the listed schema. Arguments are validated with the original schema; those written for
a strict schema are converted back first (`restored`).
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
"""Prefixes of client names in lower case: the profile for ``schemas="auto"``."""


class Profiles:
    """The profile of each client."""

    def __init__(self, schemas: str | Mapping[str, str]) -> None:
        chosen = CLIENTS if schemas == "auto" else {"": schemas} if isinstance(schemas, str) else schemas
        for name in chosen.values():
            if name not in PROFILES:
                raise RegistrationError(
                    f"unknown schema profile {name!r}; use auto or one of {', '.join(PROFILES)}"
                )
        # Longest prefix first.
        self._chosen = sorted(
            ((start.lower(), name) for start, name in chosen.items()), key=lambda row: -len(row[0])
        )

    def of(self, client_info: Mapping[str, Any] | None) -> str:
        """Return the profile of a client."""
        name = str((client_info or {}).get("name", "")).lower()
        return next((profile for start, profile in self._chosen if name.startswith(start)), "spec")


def shown(tool: Tool, profile: str) -> Tool:
    """Return a tool with its schemas in ``profile``."""
    rules = PROFILES[profile]
    if rules is None:
        return tool
    changes: dict[str, Any] = {"input_schema": rewritten(tool.input_schema, rules)}
    if tool.output_schema is not UNSET and rules.inline:
        # The output schema describes an existing result: only its references may be resolved.
        changes["output_schema"] = rewritten(tool.output_schema, Rules(inline=True))
    return replace(tool, **changes)


def needs_restoring(profile: str) -> bool:
    """Return whether arguments must be converted back."""
    rules = PROFILES[profile]
    return rules is not None and rules.closed


def restored(arguments: Any, schema: Mapping[str, Any], profile: str) -> Any:
    """Convert arguments that were written for a strict schema to the original schema."""
    if arguments is UNSET or not needs_restoring(profile):
        return arguments
    try:
        given = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return arguments  # validation reports the error
    return Raw(msgspec.json.encode(with_true_schema(given, schema)))
