"""Translate schemas of a description into self-contained JSON Schemas (2020-12).

Schemas of 3.0 are converted (``nullable``, ``exclusiveMinimum: true``). ``allOf``, ``oneOf`` and ``anyOf`` stay
unchanged, references become ``#/$defs/…``. Each definition is translated once. A reference that is missing, circular or
outside of the document accepts any value.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast

from msgspec import Struct

from ..json_schema.keywords import BY_NAME, DEFINITIONS, LISTS, MAX_SCHEMA_DEPTH, SAME_VALUE, SINGLE
from ..json_schema.references import definition_name
from ..shapes import Object, is_list, is_object
from .description import Document

SCHEMA_SIZE: Final = 10_000
"""The most values in the schema of a tool; larger parts accept anything."""
MAX_REFERENCE_CHAIN: Final = 256
"""The most definitions that apply to the same value."""


_PLAIN: Final = frozenset({
    "type", "title", "description", "default", "enum", "const", "format", "multipleOf", "maximum", "minimum",
    "exclusiveMaximum", "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems",
    "maxProperties", "minProperties", "required", "minContains", "maxContains", "dependentRequired",
    "contentEncoding", "contentMediaType", "readOnly", "writeOnly", "deprecated",
})  # fmt: skip
"""Keywords that are copied; others are not useful for models."""
_ONE: Final = SINGLE - {"additionalItems"}
_TABLES: Final = BY_NAME - {*DEFINITIONS}


class _Uses(Struct):
    """The definitions that one schema uses."""

    names: set[str]
    here: set[str]
    """Definitions that apply to the same value; a cycle of these is infinite."""
    size: int = 0


class _Definition(Struct):
    reference: str
    uses: _Uses
    schema: Any = None
    """None until it is needed."""
    checked: bool = False
    """Whether it is known to be finite."""


class OpenApiSchemas:
    """Translates the schemas of ``document``: requests without readOnly members, responses without writeOnly ones."""

    def __init__(self, document: Document, *, request: bool) -> None:
        self._document = document
        self._hidden = "readOnly" if request else "writeOnly"
        self._names: dict[str, str] = {}
        """By reference."""
        self._definitions: dict[str, _Definition] = {}

    def closed(self, schema: Any) -> Object:
        """Translate ``schema`` with its definitions; parts that are too large accept anything."""
        uses = _Uses(set(), set())
        made = self._translate(schema, 0, uses, here=True)
        while is_object(made) and made.keys() == {"$ref"}:  # older revisions need the type at the root
            root = self._definition(definition_name(made["$ref"]))
            made, uses = root.schema, root.uses
        if not is_object(made):
            return {} if made else {"not": {}}
        definitions: Object = {}
        waiting, size = list(uses.names), uses.size
        while waiting:
            name = waiting.pop()
            if name in definitions:
                continue
            definition = self._definition(name)
            definitions[name] = definition.schema
            waiting += definition.uses.names
            size += definition.uses.size
            if size > SCHEMA_SIZE:
                return {}
        return {**made, "$defs": dict(sorted(definitions.items()))} if definitions else made

    def _definition(self, name: str) -> _Definition:
        found = self._known(name)
        if not found.checked:
            found.checked = True
            if self._circles(name):
                found.schema, found.uses = {}, _Uses(set(), set(), 1)
        return found

    def _known(self, name: str) -> _Definition:
        """Return the translated definition."""
        found = self._definitions[name]
        if found.schema is None:
            found.schema = self._translate(self._document.find(found.reference), 0, found.uses, here=True)
        return found

    def _circles(self, name: str) -> bool:
        """Return whether the definition refers to itself for the same value."""
        seen: set[str] = set()
        waiting = list(self._known(name).uses.here)
        while waiting and len(seen) <= MAX_REFERENCE_CHAIN:
            other = waiting.pop()
            if other == name:
                return True
            if other not in seen:
                seen.add(other)
                waiting += self._known(other).uses.here
        return bool(waiting)

    def _reference(self, reference: str) -> str | None:
        """Return the name of the definition of ``reference``; None if it is not in the document."""
        name = self._names.get(reference)
        if name is None:
            if self._document.find(reference) is None:
                return None
            words = re.sub(r"[^A-Za-z0-9_.-]+", "_", definition_name(reference))[:100] or "schema"
            name, count = words, 1
            while name in self._definitions:
                count += 1
                name = f"{words}_{count}"
            self._names[reference] = name
            self._definitions[name] = _Definition(reference, _Uses(set(), set()))
        return name

    def _translate(self, schema: Any, depth: int, uses: _Uses, *, here: bool) -> Any:
        uses.size += 1
        if isinstance(schema, bool):
            return schema
        if not is_object(schema) or depth > MAX_SCHEMA_DEPTH // 2:
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return self._own(schema, depth, uses, here=here)
        name = self._reference(reference)
        # 3.0: siblings of a reference are ignored.
        rest = {} if self._document.old else self._own(schema, depth, uses, here=here)
        if name is None:
            return rest
        uses.names.add(name)
        if here:
            uses.here.add(name)
        return {**rest, "$ref": f"#/$defs/{name}"}

    def _own(self, schema: Object, depth: int, uses: _Uses, *, here: bool) -> Object:
        made: Object = {}
        for keyword, value in schema.items():
            inner = here and keyword in SAME_VALUE
            if keyword in _PLAIN:
                made[keyword] = value
                uses.size += _size(value)
            elif keyword in _ONE:
                made[keyword] = self._translate(value, depth + 1, uses, here=inner)
            elif keyword in LISTS and is_list(value) and value:
                made[keyword] = [self._translate(one, depth + 1, uses, here=inner) for one in value]
            elif keyword in _TABLES and is_object(value):
                made[keyword] = {
                    name: self._translate(one, depth + 1, uses, here=inner)
                    for name, one in value.items()
                    if not (is_object(one) and one.get(self._hidden) is True)
                }
        _mend(made, schema)
        return _translated(made, schema) if self._document.old else made


def _size(value: Any) -> int:
    return len(cast("list[Any]", value)) if isinstance(value, list | dict) else 1


def _mend(made: Object, schema: Object) -> None:
    """Remove invalid keywords and the names of hidden members."""
    properties: Any = schema.get("properties")
    required: Any = made.get("required")
    if required is not None:
        hidden = set(properties) - set(made["properties"]) if is_object(properties) else set[str]()
        names = (
            [name for name in required if isinstance(name, str) and name not in hidden]
            if is_list(required)
            else []
        )
        made["required"] = list(dict.fromkeys(names))
        if not names:
            del made["required"]
    if not isinstance(made.get("type", ""), str | list):
        del made["type"]
    if not is_list(made.get("enum", [0])) or made.get("enum") == []:
        del made["enum"]


def _translated(made: Object, schema: Object) -> Object:
    """Convert the keywords of 3.0."""
    for bound in ("Minimum", "Maximum"):
        exclusive = made.get(f"exclusive{bound}")
        if isinstance(exclusive, bool):
            del made[f"exclusive{bound}"]
            if exclusive and bound.lower() in made:
                made[f"exclusive{bound}"] = made.pop(bound.lower())
    if schema.get("nullable") is not True:
        return made
    kind = made.get("type")
    if not isinstance(kind, str):
        return {"anyOf": [made, {"type": "null"}]} if SAME_VALUE & made.keys() else made
    if "enum" in made and None not in made["enum"]:
        made["enum"] = [*made["enum"], None]
    if SAME_VALUE & made.keys():
        return {"anyOf": [made, {"type": "null"}]}
    made["type"] = [kind, "null"]
    return made
