"""Bounds on the size of a schema.

Three numbers are counted before a schema is compiled: its nodes, its depth, and the schemas that one value is compared
with when every reference is followed. The third one is needed because a schema of forty lines, each of which refers to
the next one twice, asks for 2⁴⁰ comparisons. A recursive reference counts once: jsonschema-rs caches its results.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, cast

from .keywords import BY_NAME, DEFINITIONS, MAX_SCHEMA_DEPTH, SAME_VALUE, VALUES
from .problem import SchemaError
from .references import target

Schema = dict[str, Any]

MAX_SCHEMA_NODES: Final = 10_000
"""Objects, arrays and other values of one schema."""
MAX_COMPARISONS: Final = 100_000
"""Schemas that one value is compared with, references followed."""
_MAX_REFERENCE_DEPTH: Final = 256
"""Levels of one schema, references followed. Python's own recursion ends at 1000."""

_SAME_VALUE: Final = SAME_VALUE | {"dependencies"}
_TABLES: Final = (BY_NAME - {*DEFINITIONS}) | {"dependencies"}
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
_UNEVALUATED_FACTOR: Final = 3
"""jsonschema-rs applies the siblings of ``unevaluated…`` again to find what they evaluated."""


class Size(NamedTuple):
    """What `measure` found."""

    comparisons: int
    """Schemas that one value is compared with."""
    is_recursive: bool


def measure(schema: Schema) -> Size:
    """Check the bounds of this module.

    Raises:
        SchemaError: one of them is exceeded, or a reference leaves the schema.
    """
    counted = _Comparisons(schema, _anchors(schema))
    comparisons = counted.of(schema, 0)
    if comparisons > MAX_COMPARISONS:
        raise SchemaError(f"one value would be compared with more than {MAX_COMPARISONS} schemas")
    return Size(comparisons, counted.is_recursive)


def _anchors(root: Schema) -> dict[str, Schema]:
    """Count nodes and levels; return the schemas that have an anchor."""
    identifier = "id" if "draft-04" in str(root.get("$schema")) else "$id"
    anchors: dict[str, Schema] = {}
    count = 0
    waiting: list[tuple[Any, int, bool]] = [(root, 0, False)]
    while waiting:
        item, depth, is_data = waiting.pop()
        count += 1
        if count > MAX_SCHEMA_NODES:
            raise SchemaError(f"it has more than {MAX_SCHEMA_NODES} parts")
        if depth > MAX_SCHEMA_DEPTH:
            raise SchemaError(f"it nests deeper than {MAX_SCHEMA_DEPTH} levels")
        if isinstance(item, dict):
            node = cast("Schema", item)
            waiting += [(one, depth + 1, is_data or key in VALUES) for key, one in node.items()]
            if is_data:
                continue
            if node is not root and isinstance(node.get(identifier), str):
                raise SchemaError(f"a part of it has its own {identifier}: refer to parts with #/… instead")
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(keyword), str):
                    anchors[f"#{node[keyword]}"] = node
        elif isinstance(item, list):
            waiting += [(one, depth + 1, is_data) for one in cast("list[Any]", item)]
    return anchors


class _Comparisons:
    """How many schemas one value is compared with: the sum of those for itself, the largest of its members."""

    def __init__(self, root: Schema, anchors: dict[str, Schema]) -> None:
        self._root = root
        self._anchors = anchors
        self._known: dict[int, int] = {}
        """By schema; 0 while it is being counted."""
        self.is_recursive = False

    def of(self, schema: Any, depth: int) -> int:
        if not isinstance(schema, dict):
            return 1
        node = cast("Schema", schema)
        known = self._known.get(id(node))
        if known is not None:
            self.is_recursive |= known == 0
            return known
        if depth > _MAX_REFERENCE_DEPTH:
            raise SchemaError(f"its references nest deeper than {_MAX_REFERENCE_DEPTH} levels")
        self._known[id(node)] = 0
        itself = sum(self.of(one, depth + 1) for one in self._same_value(node))
        if any(keyword in node for keyword in _UNEVALUATED):
            itself *= _UNEVALUATED_FACTOR
        below = max((self.of(one, depth + 1) for one in _below(node)), default=0)
        found = self._known[id(node)] = min(1 + itself + below, MAX_COMPARISONS + 1)
        return found

    def _same_value(self, node: Schema) -> Iterator[Any]:
        for keyword in _SAME_VALUE & node.keys():
            yield from _schemas(keyword, node[keyword])
        for keyword in _REFERENCES:
            reference: Any = node.get(keyword)
            if isinstance(reference, str):
                yield self._target(reference)

    def _target(self, reference: str) -> Any:
        if not reference.startswith("#"):
            raise SchemaError(f"it refers to {reference!r}: references to other documents are not followed")
        found = self._anchors.get(reference)
        if found is None:
            found = target(reference, self._root)
        if found is None:
            raise SchemaError(f"the reference {reference!r} does not lead to a schema")
        return found


def _below(node: Schema) -> Iterator[Any]:
    for keyword in node.keys() - _SAME_VALUE - VALUES - {*DEFINITIONS}:
        yield from _schemas(keyword, node[keyword])


def _schemas(keyword: str, value: Any) -> Iterator[Any]:
    """The schemas in the value of a keyword."""
    if isinstance(value, dict):
        yield from cast("Schema", value).values() if keyword in _TABLES else (cast("Schema", value),)
    elif isinstance(value, list):
        yield from cast("list[Any]", value)
