"""Names that an HTTP API has twice: in the address of an operation, and in what is sent to it.

FastMCP calls the one in the address ``id__path``. The name of a part of an address is not sent, so it is changed in the
description; then nothing collides, and ours puts the members of a body beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ......shapes import is_object
from .routing import METHODS

_SUFFIX: Final = "__path"


def told_apart(spec: dict[str, Any]) -> dict[str, Any]:
    """The description, with other names for those parts of addresses that bodies have as well."""
    paths: dict[str, Any] = {}
    for path, item in spec.get("paths", {}).items():
        twice = _twice(spec, path, item) if is_object(item) else set[str]()
        address = path
        for name in twice:
            address = address.replace("{" + name + "}", "{" + name + _SUFFIX + "}")
        paths[address] = _renamed(spec, item, twice) if twice else item
    return {**spec, "paths": paths} if "paths" in spec else spec


def _twice(spec: dict[str, Any], path: str, item: Any) -> set[str]:
    operations = [item[word.lower()] for word in METHODS if is_object(item.get(word.lower()))]
    members = {name for one in operations for name in _members(spec, one)}
    return {name for name in members if "{" + name + "}" in path}


def _members(spec: dict[str, Any], operation: Any) -> Iterator[str]:
    """The members of what is sent to an operation."""
    for media in _found(spec, operation.get("requestBody", {})).get("content", {}).values():
        yield from _found(spec, _found(spec, media).get("schema", {})).get("properties", {})


def _found(spec: dict[str, Any], node: Any) -> dict[str, Any]:
    """A part of the description, or the one that it refers to in the same description."""
    where = node.get("$ref") if is_object(node) else None
    if not isinstance(where, str) or not where.startswith("#/"):
        return node if is_object(node) else {}
    found: Any = spec
    for word in where[2:].split("/"):
        found = found.get(word, {}) if is_object(found) else {}
    return found if is_object(found) else {}


def _renamed(spec: dict[str, Any], item: Any, names: set[str]) -> dict[str, Any]:
    """A path, or an operation of it, whose parameters have the other names."""
    said: dict[str, Any] = dict(item)
    for word, value in said.items():
        if word == "parameters":
            said[word] = [_other(_found(spec, one), names) for one in value]
        elif word.upper() in METHODS and is_object(value):
            said[word] = _renamed(spec, value, names)
    return said


def _other(parameter: dict[str, Any], names: set[str]) -> dict[str, Any]:
    if parameter.get("in") != "path" or parameter.get("name") not in names:
        return parameter
    return {**parameter, "name": parameter["name"] + _SUFFIX}
