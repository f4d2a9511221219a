"""References within one document: ``#`` and ``#/a/pointer``. Nothing is ever fetched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

Schema = Mapping[str, Any]

MAX_REFERENCE_STEPS: Final = 32
"""References to references that are followed."""


def value_at(reference: Any, root: Any) -> Any:
    """The value in ``root`` that a reference points at; None when it points at nothing or outside of ``root``."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    pointer = reference[1:]
    if "%" in pointer:
        from urllib.parse import unquote  # it takes time to load

        pointer = unquote(pointer)
    if pointer and not pointer.startswith("/"):
        return None  # an anchor
    found: Any = root
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = cast("Schema", found).get(step)
        elif isinstance(found, list) and step.isdecimal() and int(step) < len(cast("list[Any]", found)):
            found = cast("list[Any]", found)[int(step)]
        else:
            return None
    return found


def target(reference: Any, root: Schema) -> Any:
    """The schema that a reference within ``root`` points at; None when it points at no schema of ``root``."""
    found = value_at(reference, root)
    return cast("Any", found) if isinstance(found, Mapping | bool) else None


def resolved(schema: Any, root: Schema) -> Schema:
    """``schema``, or the schema it refers to, merged with the other keywords of ``schema``."""
    found: Any = schema
    beside: dict[str, Any] = {}
    for _ in range(MAX_REFERENCE_STEPS):
        if not isinstance(found, Mapping):
            return beside
        members = cast("Schema", found)
        if "$ref" not in members:
            return {**members, **beside} if beside else members
        beside = {**{key: one for key, one in members.items() if key != "$ref"}, **beside}
        found = target(members["$ref"], root)
    return beside


def definition_name(reference: Any) -> str:
    """The last part of a reference: ``Node`` of ``#/$defs/Node``."""
    return reference.rpartition("/")[2] if isinstance(reference, str) else ""
