"""Schemas as a client can take them: one row says what a profile knows; `rewriting.py` writes schemas so.

``spec`` leaves a schema as it is. ``inline`` puts in place of every ``$ref`` what it refers to, as deep as a recursion
may reasonably be. ``openai-strict`` is what OpenAI calls strict: every object is closed and has all of its members,
those that may be left out are null. ``gemini`` is what Gemini takes as the parameters of a function.

A profile changes what is shown, never what is accepted: arguments are read with the true schema. For that, nulls in
place of members that may be left out, and objects of any members, which strict schemas can only have as text, are taken
back before (`restored`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from ..errors import RegistrationError
from ..model import Tool
from .references import accepts_null, is_free_form, merged, resolved, types_of
from .rewriting import Rules, rewritten

_STRUCTURE: Final = frozenset({
    "type", "properties", "required", "additionalProperties", "items", "enum", "anyOf", "title", "description",
    "minimum", "maximum", "minItems", "maxItems", "pattern",
})  # fmt: skip

PROFILES: Final[Mapping[str, Rules | None]] = {
    "spec": None,
    "inline": Rules(inline=True),
    "openai-strict": Rules(
        keeps=_STRUCTURE
        | {"const", "$ref", "$defs", "format", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
        formats=frozenset(
            ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"]
        ),
        closed=True,
    ),
    "gemini": Rules(
        inline=True,
        keeps=_STRUCTURE - {"additionalProperties"} | {"format", "nullable", "minLength", "maxLength"},
        formats=frozenset(["date-time", "enum", "int32", "int64", "float", "double"]),
        nullable=True,
    ),
}
"""By name: what a profile knows. None is everything."""

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
    return Raw(msgspec.json.encode(_restored(given, schema, schema)))


def _restored(value: Any, schema: Any, root: Mapping[str, Any]) -> Any:
    schema = _branch(value, merged(schema, root), root)
    if isinstance(value, dict):
        members: Mapping[str, Any] = schema.get("properties") or {}
        required = schema.get("required") or ()
        return {
            name: _restored(one, members.get(name, True), root)
            for name, one in cast("dict[str, Any]", value).items()
            if one is not None or name in required or accepts_null(members.get(name, True), root)
        }
    if isinstance(value, list):
        items: Any = schema.get("items", True)
        first: Any = schema.get("prefixItems") or ()
        values = cast("list[Any]", value)
        return [
            _restored(one, first[at] if at < len(first) else items, root) for at, one in enumerate(values)
        ]
    if isinstance(value, str) and is_free_form(schema):
        try:
            found: Any = msgspec.json.decode(value)
        except msgspec.DecodeError:
            return value
        return cast("Any", found) if isinstance(found, dict) else value
    return value


def _branch(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of several forms that a value may have, the one it has."""
    branches: Any = schema.get("anyOf") or schema.get("oneOf")
    if not branches:
        return schema
    forms = [merged(branch, root) for branch in branches]
    if isinstance(value, dict):
        names = cast("dict[str, Any]", value).keys()
        fitting = [
            one
            for one in forms
            if _fits(cast("dict[str, Any]", value), one, root) and names >= _required(one)
        ]
        return {**schema, **fitting[0]} if fitting else schema
    wanted = "array" if isinstance(value, list) else "object"
    plain = isinstance(value, str) and any("string" in types_of(one) or "enum" in one for one in forms)
    if plain or not isinstance(value, list | str):
        return schema
    return next((one for one in forms if wanted in types_of(one)), schema)


def _fits(value: dict[str, Any], schema: Mapping[str, Any], root: Mapping[str, Any]) -> bool:
    members: Mapping[str, Any] = schema.get("properties") or {}
    if "object" not in types_of(schema) or not value.keys() <= members.keys():
        return False
    fixed = {name: resolved(one, root) for name, one in members.items() if name in value}
    return all("const" not in one or one["const"] == value[name] for name, one in fixed.items())


def _required(schema: Mapping[str, Any]) -> set[str]:
    return set(schema.get("required") or ())
