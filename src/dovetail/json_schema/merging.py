"""One schema made of several: references followed, ``allOf`` merged; and the types that the result names."""

from __future__ import annotations

from typing import Any, cast

from .references import MAX_REFERENCE_STEPS, Schema, resolved


def merged(schema: Any, root: Schema, steps: int = MAX_REFERENCE_STEPS) -> Schema:
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
