"""JSON Schemas as FastMCP writes them: without titles, references put in place."""

from __future__ import annotations

from typing import Any, Final, cast

from ...shapes import is_list, is_object

_SCHEMA_WORDS: Final = frozenset(
    {"type", "properties", "$ref", "items", "allOf", "oneOf", "anyOf", "required", "enum", "const"}
)
_NAMED: Final = ("properties", "$defs", "patternProperties")
"""Members whose keys are names of the author's, and no words of JSON Schema."""


def without_titles(schema: Any, *, bare: bool) -> Any:
    """``schema`` without the titles pydantic gives; ``bare`` takes one away that stands alone, too."""
    if is_list(schema):
        return [without_titles(item, bare=bare) for item in schema]
    if not is_object(schema):
        return schema
    goes = isinstance(schema.get("title"), str) and (
        not _SCHEMA_WORDS.isdisjoint(schema) or (bare and len(schema) == 1)
    )
    return {
        name: _named(value, bare=bare) if name in _NAMED else without_titles(value, bare=bare)
        for name, value in schema.items()
        if name != "title" or not goes
    }


def _named(members: Any, *, bare: bool) -> Any:
    if not is_object(members):
        return members
    return {name: without_titles(value, bare=bare) for name, value in members.items()}


def dereferenced(schema: dict[str, Any]) -> dict[str, Any]:
    """``schema`` with what ``$defs`` has put where it is referred to; types that contain themselves stay apart."""
    definitions = schema.get("$defs")
    if not is_object(definitions):
        return schema
    circular = {name for name in definitions if _reaches(name, name, definitions, set())}
    if circular:
        return schema  # what cannot be written out in one place is not written out in any
    body = {name: value for name, value in schema.items() if name != "$defs"}
    return cast("dict[str, Any]", _put_in(body, definitions))


def _put_in(value: Any, definitions: dict[str, Any]) -> Any:
    if is_list(value):
        return [_put_in(item, definitions) for item in value]
    if not is_object(value):
        return value
    name = _target(value)
    if name is None or name not in definitions:
        return {key: _put_in(item, definitions) for key, item in value.items()}
    beside = {key: _put_in(item, definitions) for key, item in value.items() if key != "$ref"}
    return {**_put_in(definitions[name], definitions), **beside}


def _target(value: dict[str, Any]) -> str | None:
    reference = value.get("$ref")
    return reference.removeprefix("#/$defs/") if isinstance(reference, str) else None


def _reaches(name: str, wanted: str, definitions: dict[str, Any], seen: set[str]) -> bool:
    for target in _references(definitions.get(name)):
        if target == wanted:
            return True
        if target not in seen:
            seen.add(target)
            if _reaches(target, wanted, definitions, seen):
                return True
    return False


def _references(value: Any) -> list[str]:
    if is_list(value):
        return [name for item in value for name in _references(item)]
    if not is_object(value):
        return []
    own = _target(value)
    return ([] if own is None else [own]) + [name for item in value.values() for name in _references(item)]
