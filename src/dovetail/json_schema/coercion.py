"""Coercion of text to the declared type: models send ``"5"`` for 5 and ``"[1, 2]"`` for a list.

A text is replaced only where the schema does not allow a string, and only if it is the JSON of exactly a declared type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import msgspec

from ..shapes import is_list, is_object
from .references import Schema, resolved

MAX_COERCION_DEPTH: Final = 32
"""Levels of arguments that are searched for texts."""
_BRANCHES: Final = ("anyOf", "oneOf", "allOf")


def coerce(value: Any, schema: Schema) -> tuple[Any, int]:
    """Return ``value`` with coerced texts, and how many there were."""
    coercion = _Coercion(schema)
    return coercion.apply(value, schema, MAX_COERCION_DEPTH), coercion.count


class _Coercion:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self.count = 0

    def apply(self, value: Any, schema: Any, depth: int) -> Any:
        if depth == 0 or not isinstance(schema, Mapping):
            return value
        schemas = list(self._alternatives(cast("Schema", schema), depth))
        if isinstance(value, str):
            value = self._parsed(value, schemas)
        if is_object(value):
            return {name: self._member(name, each, schemas, depth) for name, each in value.items()}
        if is_list(value):
            return [self._item(at, each, schemas, depth) for at, each in enumerate(value)]
        return value

    def _alternatives(self, schema: Schema, depth: int) -> Iterator[Schema]:
        """The schema without references, and the branches of its unions."""
        found = resolved(schema, self._root)
        branches = [
            cast("Schema", each) for key in _BRANCHES for each in found.get(key, ()) if is_object(each)
        ]
        if not branches or "type" in found or "properties" in found:
            yield found
        if depth:
            for branch in branches:
                yield from self._alternatives(branch, depth - 1)

    def _parsed(self, text: str, schemas: list[Schema]) -> Any:
        types = set[str]()
        for schema in schemas:
            declared = schema.get("type")
            if declared is None:
                return text  # a string may be allowed here
            types.update([declared] if isinstance(declared, str) else declared)
        if not types or "string" in types:
            return text
        try:
            value = msgspec.json.decode(text)
        except (ValueError, RecursionError):
            return text
        if not types & _types_of(value):
            return text
        self.count += 1
        return value

    def _member(self, name: str, value: Any, schemas: list[Schema], depth: int) -> Any:
        for schema in schemas:
            properties = schema.get("properties")
            if is_object(properties) and name in properties:
                return self.apply(value, properties[name], depth - 1)
        for schema in schemas:
            if isinstance(schema.get("additionalProperties"), Mapping):
                return self.apply(value, schema["additionalProperties"], depth - 1)
        return value

    def _item(self, at: int, value: Any, schemas: list[Schema], depth: int) -> Any:
        for schema in schemas:
            prefix = schema.get("prefixItems", ())
            if is_list(prefix) and at < len(prefix):
                return self.apply(value, prefix[at], depth - 1)
            if isinstance(schema.get("items"), Mapping):
                return self.apply(value, schema["items"], depth - 1)
        return value


def _types_of(value: Any) -> set[str]:
    """The names that JSON Schema has for the type of a JSON value."""
    if value is None:
        return {"null"}
    if isinstance(value, bool):
        return {"boolean"}
    if isinstance(value, int):
        return {"integer", "number"}
    if isinstance(value, float):
        return {"number", "integer"} if value.is_integer() else {"number"}
    if is_object(value):
        return {"object"}
    return {"array"} if is_list(value) else {"string"}
