"""Functions on single schemas for `comparison`: types, bounds, values, and the conjunction of two."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, cast

from .keywords import ANNOTATIONS, BY_NAME, DEFINITIONS

Schema = dict[str, Any]
IGNORED: Final = ANNOTATIONS | {"x-mcp-header"}
"""Keywords that assert nothing."""
_TYPES: Final = ("null", "boolean", "object", "array", "number", "string", "integer")
_NOTHING: Final[Schema] = {"not": {}}
TOGETHER: Final = (
    ("if", "then", "else"), ("contains", "minContains", "maxContains"), ("patternProperties",), ("propertyNames",),
    ("dependentRequired",), ("dependentSchemas",), ("dependencies",), ("not",), ("pattern",), ("format",),
    ("$dynamicRef",), ("additionalItems",), ("contentSchema",),
)  # fmt: skip
"""Keywords that must be equal on both sides."""
WHOLE: Final = ("unevaluatedProperties", "unevaluatedItems")
"""Keywords whose meaning depends on their siblings."""
KNOWN: Final = frozenset({
    "type", "enum", "const", "properties", "required", "additionalProperties", "items", "prefixItems", "minItems",
    "maxItems", "uniqueItems", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength",
    "maxLength", "minProperties", "maxProperties", "allOf", "anyOf", "oneOf", "$ref", *DEFINITIONS, *IGNORED,
    *(name for names in TOGETHER for name in names), *WHOLE,
})  # fmt: skip
BOUNDS: Final = (
    ("minLength", 0, False), ("maxLength", math.inf, True), ("minItems", 0, False), ("maxItems", math.inf, True),
    ("minProperties", 0, False), ("maxProperties", math.inf, True),
)  # fmt: skip


class Reason(NamedTuple):
    """Why a value may not fit, and the path in it."""

    path: str
    text: str


def plain(schema: Any) -> Any:
    """Return ``schema`` without annotations, for comparison."""
    return _stripped(schema, names=False)


def member(schema: Any, name: str) -> Any:
    return cast("Schema", schema).get(name) if isinstance(schema, dict) else None


def _stripped(schema: Any, *, names: bool) -> Any:
    if isinstance(schema, list):
        return [_stripped(one, names=False) for one in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    value: Any
    for key, value in cast("Schema", schema).items():
        if not names and key in IGNORED:
            continue
        if not names and key in ("enum", "const", "required"):
            found[key] = sorted(map(str, value)) if key == "required" else value
        else:
            tables = key in BY_NAME
            found[key] = _stripped(value, names=tables and not names)
    return found


def as_schema(schema: Any) -> Schema:
    if schema is True:
        return {}
    return (
        _NOTHING if schema is False else cast("Schema", schema) if isinstance(schema, dict) else {"?": schema}
    )


def empty(schema: Schema) -> bool:
    return all(key in IGNORED or key in DEFINITIONS for key in schema)


def never(schema: Any) -> bool:
    schema = as_schema(schema)
    return schema.get("not") in ({}, True) or schema.get("enum") == [] or schema.get("type") == []


def possible_types(schema: Schema) -> set[str]:
    """Return the types of values; ``number`` includes integers."""
    kinds: Any = schema.get("type", _TYPES)
    found = {kinds} if isinstance(kinds, str) else set(kinds)
    return found - {"integer"} if "number" in found else found


def allows(schema: Schema, kind: str) -> bool:
    types = possible_types(schema)
    return kind in types or (kind == "integer" and "number" in types)


def overlap(one: str, two: str) -> bool:
    return one == two or {one, two} == {"integer", "number"}


def finite_values(schema: Schema) -> list[Any] | None:
    """Return all values if the schema enumerates them."""
    if "const" in schema:
        return [schema["const"]]
    if "enum" in schema:
        return list(schema["enum"])
    types = possible_types(schema)
    if types <= {"null", "boolean"} and not any(
        word in schema for word in ("anyOf", "oneOf", "allOf", "not", "$ref")
    ):
        return ([None] if "null" in types else []) + ([True, False] if "boolean" in types else [])
    return None


def joined(part: Any, rest: Schema) -> Schema:
    """Return the conjunction of two schemas, merged if their keywords differ."""
    part = as_schema(part)
    if empty(rest):
        return part
    both = conjunction(part, rest)
    return {"allOf": [part, rest]} if both is None else both


def conjunction(one: Schema, two: Schema) -> Schema | None:
    """Merge two schemas; None if they have different values for one keyword."""
    one = {key: value for key, value in one.items() if key not in IGNORED}
    two = {key: value for key, value in two.items() if key not in IGNORED}
    shared = {key for key in one if key in two and one[key] != two[key]}
    # additionalProperties depends on its sibling properties, so they cannot be separated.
    tables = {"properties", "prefixItems", "patternProperties"}
    beside = bool({"additionalProperties", "items", *WHOLE} & {*one, *two})
    crossed = bool(tables & {*one} and tables & {*two}) or ("additionalProperties" in one) != (
        "additionalProperties" in two
    )
    if shared - {"required", "properties", "type"} or (beside and crossed):
        return None
    found = {**one, **two}
    if "required" in one and "required" in two:
        found["required"] = [
            *one["required"],
            *(name for name in two["required"] if name not in one["required"]),
        ]
    if "properties" in shared:
        members = dict(one["properties"])
        for name, value in two["properties"].items():
            members[name] = {"allOf": [members[name], value]} if name in members else value
        found["properties"] = members
    if "type" in shared:
        found["type"] = [kind for kind in _TYPES if allows(one, kind) and allows(two, kind)]
    return found


OWNER: Final = {
    "minLength": "string", "maxLength": "string", "pattern": "string", "format": "", "minItems": "array",
    "maxItems": "array", "contains": "array", "minProperties": "object", "maxProperties": "object",
    "patternProperties": "object", "propertyNames": "object", "dependentRequired": "object",
    "dependentSchemas": "object", "dependencies": "object",
}  # fmt: skip
"""Return the type to which a keyword applies."""


def number_reasons(a: Schema, b: Schema, path: str) -> Iterator[Reason]:
    for low, high, sign in (("minimum", "exclusiveMinimum", 1), ("maximum", "exclusiveMaximum", -1)):
        own, other = _limit(a, low, high, sign), _limit(b, low, high, sign)
        if own < other:
            yield Reason(path, f"the {low} is {sign * other[0]:g} now")
    step = b.get("multipleOf")
    if step is not None:
        given = a.get("multipleOf", 1 if possible_types(a) == {"integer"} else None)
        whole = isinstance(step, int) and isinstance(given, int)
        if given != step and not (whole and given % step == 0):
            yield Reason(path, f"must be a multiple of {step} now")


def _limit(schema: Schema, closed: str, open: str, sign: int) -> tuple[float, bool]:
    """Return the lower bound, or the negated upper bound; larger and exclusive bounds are narrower."""
    ends = [(sign * schema[closed], False)] if _is_number(schema.get(closed)) else []
    if _is_number(schema.get(open)):
        ends.append((sign * schema[open], True))
    return max(ends, default=(-math.inf, False))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def prefix_of(schema: Schema) -> list[Any]:
    found: Any = schema.get(
        "prefixItems", schema.get("items") if isinstance(schema.get("items"), list) else []
    )
    return found


def rest_of(schema: Schema) -> Any:
    items = schema.get("items", True)
    return schema.get("additionalItems", True) if isinstance(items, list) else items


def local_references(schema: Any) -> bool:
    """Return whether it has a reference to another part of the document than the definitions."""
    if isinstance(schema, list):
        return any(map(local_references, cast("list[Any]", schema)))
    if not isinstance(schema, dict):
        return False
    members = cast("Schema", schema)
    target = members.get("$ref", members.get("$dynamicRef"))
    outside = isinstance(target, str) and not target.startswith(tuple(f"#/{name}/" for name in DEFINITIONS))
    return outside or any(map(local_references, members.values()))


def shown_values(schema: Schema) -> str:
    values: list[Any] = [schema["const"]] if "const" in schema else schema["enum"]
    return ", ".join(map(shown_value, values[:5])) + (", …" if len(values) > 5 else "")


shown_value: Callable[[Any], str] = repr
