"""Following references within one schema, and saying in one what several parts of it say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import unquote

from .bounds import REFERENCE_STEPS

Schema = Mapping[str, Any]


def target(reference: Any, root: Schema) -> Any:
    """What a reference within ``root`` points at; None for one that leads elsewhere or nowhere."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found: Any = root
    pointer = unquote(reference[1:])
    if pointer and not pointer.startswith("/"):
        return None  # an anchor
    for word in pointer.split("/")[1:]:
        word = word.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = cast("Schema", found).get(word)
        elif isinstance(found, list) and word.isdecimal() and int(word) < len(cast("list[Any]", found)):
            found = cast("list[Any]", found)[int(word)]
        else:
            return None
    return cast("Any", found) if isinstance(found, Mapping | bool) else None


def resolved(schema: Any, root: Schema) -> Schema:
    """A schema, or what it refers to, with what is said beside the reference."""
    found: Any = schema
    beside: dict[str, Any] = {}
    for _ in range(REFERENCE_STEPS):
        if not isinstance(found, Mapping):
            return beside
        members = cast("Schema", found)
        if "$ref" not in members:
            return {**members, **beside} if beside else members
        beside = {**{key: one for key, one in members.items() if key != "$ref"}, **beside}
        found = target(members["$ref"], root)
    return beside


def merged(schema: Any, root: Schema, steps: int = REFERENCE_STEPS) -> Schema:
    """A schema with its references followed and its ``allOf`` taken together, as far as one schema can say it."""
    found = resolved(schema, root)
    parts: Any = found.get("allOf")
    if not isinstance(parts, list) or not steps:
        return found
    whole: dict[str, Any] = {}
    for part in (*cast("list[Any]", parts), {key: one for key, one in found.items() if key != "allOf"}):
        one = merged(part, root, steps - 1)
        properties: dict[str, Any] = {**(whole.get("properties") or {}), **(one.get("properties") or {})}
        required = dict.fromkeys([*(whole.get("required") or ()), *(one.get("required") or ())])
        whole |= one
        if properties:
            whole["properties"] = properties
        if required:
            whole["required"] = list(required)
    return whole


def types_of(schema: Schema) -> tuple[str, ...]:
    """The types a schema names."""
    found: Any = schema.get("type", ())
    return (
        (found,)
        if isinstance(found, str)
        else tuple(cast("list[str]", found))
        if isinstance(found, list)
        else ()
    )


def accepts_null(schema: Any, root: Schema) -> bool:
    """Whether null is a value of it."""
    if isinstance(schema, bool):
        return schema
    found = merged(schema, root)
    if "enum" in found:
        return None in found["enum"]
    if "const" in found:
        return found["const"] is None
    if "type" in found:
        return "null" in types_of(found)
    branches: Any = found.get("anyOf") or found.get("oneOf")
    return any(accepts_null(branch, root) for branch in branches) if branches else True


def is_free_form(schema: Schema) -> bool:
    """Whether it is an object of any members."""
    return (
        types_of(schema) == ("object",)
        and not schema.get("properties")
        and schema.get("additionalProperties") is not False
    )
