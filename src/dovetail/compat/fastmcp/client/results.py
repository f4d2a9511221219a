"""What a tool answered, as Python has it: its structured content, read by the schema that the tool shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, make_dataclass
from datetime import datetime
from functools import cache
from keyword import iskeyword
from typing import Any, Final, cast

from pydantic import AnyUrl

_FORMATS: Final[Mapping[str, Callable[[str], Any]]] = {"date-time": datetime.fromisoformat, "uri": AnyUrl}


@dataclass
class CallToolResult:
    """What a tool answered; ``data`` is the structured result, taken out of where it was wrapped in."""

    content: list[Any]
    structured_content: dict[str, Any] | None
    meta: dict[str, Any] | None
    data: Any = None
    is_error: bool = False


def read(value: Any, schema: Mapping[str, Any]) -> Any:
    """``value``, with instances of dataclasses where ``schema`` has objects with properties."""
    return _Reading(schema).read(value, schema, "Root")


def answer_type(schema: Mapping[str, Any]) -> type | None:
    """A class for what somebody fills in a form with; None where there is nothing to fill in."""
    properties: Mapping[str, Any] = schema.get("properties") or {}
    return _dataclass(schema.get("title") or "Root", tuple(properties)) if properties else None


class _Reading:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def read(self, value: Any, schema: Mapping[str, Any], name: str) -> Any:
        if "$ref" in schema:
            return self.read(value, self._meant(schema["$ref"]), name)
        if isinstance(value, dict):
            return self._object(cast("dict[str, Any]", value), self._fitting(schema, "object"), name)
        if isinstance(value, list):
            shape = self._fitting(schema, "array")
            items: Any = shape.get("items")
            inner: Mapping[str, Any] = cast("Any", items) if isinstance(items, dict) else {}
            found = [self.read(one, inner, "Root") for one in cast("list[Any]", value)]
            return set(found) if shape.get("uniqueItems") else found
        if isinstance(value, str):
            return _FORMATS.get(self._fitting(schema, "string").get("format", ""), str)(value)
        return value

    def _object(self, value: dict[str, Any], schema: Mapping[str, Any], name: str) -> Any:
        properties: Mapping[str, Any] = schema.get("properties") or {}
        if not properties:
            further = schema.get("additionalProperties")
            inner: Mapping[str, Any] = cast("Any", further) if isinstance(further, dict) else {}
            return {key: self.read(one, inner, "Root") for key, one in value.items()}
        kind = _dataclass(schema.get("title") or name, tuple(properties))
        known = {key: self.read(value[key], one, "Root") for key, one in properties.items() if key in value}
        made: Any = kind(**{_word(key): one for key, one in known.items()})
        if schema.get("additionalProperties") is True:
            for key in value.keys() - known.keys():
                setattr(made, key, value[key])
        return made

    def _fitting(self, schema: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
        """Of several schemas that of this kind of value."""
        for one in schema.get("anyOf", ()):
            found = self._meant(one["$ref"]) if "$ref" in one else one
            if found.get("type") == kind:
                return found
        return schema

    def _meant(self, reference: str) -> Mapping[str, Any]:
        found: Any = self._root
        for part in reference.removeprefix("#").strip("/").split("/"):
            found = found.get(part, {}) if part else found
        return found


def _word(key: str) -> str:
    word = re.sub(r"\W", "_", key)
    return f"field_{word}" if not word.isidentifier() or iskeyword(word) else word


@cache
def _dataclass(name: str, keys: tuple[str, ...]) -> type:
    return make_dataclass(_word(name), [(_word(key), Any, field(default=None)) for key in keys])
