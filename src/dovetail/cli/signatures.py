"""The signatures of tools and prompts, with types, for ``dovetail list``: ``find(query: str, limit: int = 10) -> str``.

Types are written as in Python. An optional parameter has its default; ``...`` is a default that the schema does not
name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET

from ..json_schema.references import definition_name, resolved
from ..shapes import is_list, is_object

MAX_CHOICES: Final = 6
"""The most values of an enumeration that a type lists."""
MAX_DEPTH: Final = 6
"""Levels of a schema that are shown; deeper types are Any."""
MAX_LITERAL: Final = 40
"""The longest default or value that is shown, in characters."""
_SCALARS: Final = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
}


KnownTypes = dict[tuple[int, int], tuple[Any, str]]
"""By the id of a schema and its depth: the schema and its type."""


class PrintedSignature(msgspec.Struct, frozen=True):
    """The parts of a signature, so that a long one can be wrapped between its parameters."""

    name: str
    parameters: tuple[str, ...] | None
    """None: a resource, which has no parameters."""
    returns: str = ""

    def __str__(self) -> str:
        return (
            self.name
            if self.parameters is None
            else f"{self.name}({', '.join(self.parameters)}){self._end()}"
        )

    def wrapped(self, width: int) -> list[str]:
        """Return the lines of the signature, broken between parameters where it is longer than ``width``."""
        lines = [f"{self.name}("]
        words = [f"{one}, " for one in self.parameters or ()]
        last = ")" + self._end()
        if words:
            words[-1] = words[-1][:-2] + last
        else:
            lines[0] += last
        for word in words:
            if len(lines[-1]) + len(word.rstrip()) > width and lines[-1].strip():
                lines.append("      ")
            lines[-1] += word
        return [line.rstrip() for line in lines]

    def _end(self) -> str:
        return f" -> {self.returns}" if self.returns else ""


def signature(entry: Any) -> PrintedSignature:
    """Return the signature of a tool or prompt; of other components, their address or name."""
    schema: Any = getattr(entry, "input_schema", None)
    if is_object(schema):
        return PrintedSignature(
            entry.name, tuple(_parameters(schema)), _returns(getattr(entry, "output_schema", UNSET))
        )
    arguments: Any = getattr(entry, "arguments", UNSET)
    if arguments is not UNSET and arguments:
        return PrintedSignature(
            entry.name, tuple(one.name + (": str" if one.required else ": str = ...") for one in arguments)
        )
    name = getattr(entry, "uri", None) or getattr(entry, "uri_template", None) or entry.name
    return PrintedSignature(name, None)


def _parameters(schema: Mapping[str, Any]) -> list[str]:
    whole = resolved(schema, schema)
    properties: Any = whole.get("properties")
    required: Any = whole.get("required")
    wanted = {one for one in required if isinstance(one, str)} if is_list(required) else set[str]()
    found: list[str] = []
    known = KnownTypes()
    for name, one in properties.items() if is_object(properties) else ():
        text = f"{name}: {type_of(one, schema, 0, known)}"
        if name not in wanted:
            text += f" = {_literal(one['default']) if is_object(one) and 'default' in one else '...'}"
        found.append(text)
    return found


def _returns(schema: Any) -> str:
    if not is_object(schema):
        return ""
    whole = resolved(schema, schema)
    properties: Any = whole.get("properties")
    # Older revisions permit only objects as results, so servers wrap other values in an object.
    if is_object(properties) and list(properties) == ["result"] and whole.get("required") == ["result"]:
        return type_of(properties["result"], schema)
    return type_of(schema, schema)


def type_of(schema: Any, root: Mapping[str, Any], depth: int = 0, known: KnownTypes | None = None) -> str:
    """Return the type of the values of ``schema``, a part of the document ``root``.

    ``known`` has the types that were made before: a schema may refer to itself in many places.
    """
    if not is_object(schema) or depth > MAX_DEPTH:
        return "Any"
    known = KnownTypes() if known is None else known
    key = (id(schema), depth)
    if key not in known:
        known[key] = (
            schema,
            _type_of(schema, root, depth, known),
        )  # it keeps the schema, so that its id is not reused
    return known[key][1]


def _type_of(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int, known: KnownTypes) -> str:
    whole = resolved(schema, root)
    if "const" in whole:
        return _literal(whole["const"])
    if is_list(choices := whole.get("enum")):
        return " | ".join(map(_literal, choices[:MAX_CHOICES])) + (
            " | …" if len(choices) > MAX_CHOICES else ""
        )
    for key in ("anyOf", "oneOf"):
        if is_list(options := whole.get(key)):
            return _union([type_of(one, root, depth + 1, known) for one in options])
    declared: Any = whole.get("type")
    if is_list(declared):
        return _union([type_of({**whole, "type": one}, root, depth + 1, known) for one in declared])
    if isinstance(declared, str) and declared in _SCALARS:
        return _SCALARS[declared]
    if declared == "array":
        return (
            f"list[{type_of(items, root, depth + 1, known)}]"
            if is_object(items := whole.get("items"))
            else "list"
        )
    if declared == "object" or is_object(whole.get("properties")):
        return _object(whole, definition_name(schema.get("$ref")), root, depth, known)
    return "Any"


def _object(
    schema: Mapping[str, Any], name: str, root: Mapping[str, Any], depth: int, known: KnownTypes
) -> str:
    more: Any = schema.get("additionalProperties")
    if is_object(schema.get("properties")):
        title: Any = schema.get("title")
        return name or (title if isinstance(title, str) and title.isidentifier() else "dict")
    return f"dict[str, {type_of(more, root, depth + 1, known)}]" if is_object(more) else "dict"


def _union(types: list[str]) -> str:
    return " | ".join(dict.fromkeys(types)) or "Any"


def _literal(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MAX_LITERAL else "..."
