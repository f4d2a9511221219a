"""How much work a schema can be, counted without doing it.

A schema of a few lines can ask for more comparisons than anybody has time for: references that double with every step,
alternatives that each look at the same members again. `Weight` finds an upper bound: how often a value that lies so and
so many levels down is looked at, whatever its members are called. Times the values on each level, that is the work.

The count is a graph over the places of a schema. Some keywords speak about the value itself (``allOf``, ``$ref``), the
others about what is in it (``properties``, ``items``); a circle of the first kind would never end and is refused.
"""

from __future__ import annotations

from typing import Any, Final, cast
from urllib.parse import unquote

from msgspec import Struct

from ..settings import SCHEMA_DEPTH, SCHEMA_NODES, SCHEMA_STEPS
from .problem import SchemaError

Schema = dict[str, Any]

_HERE: Final = ("not", "if", "then", "else", "allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies")
"""Keywords whose schemas look at the value itself."""
_TABLES: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
"""Keywords that hold schemas by name."""
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_MEMBERS: Final = ("properties", "additionalProperties", "unevaluatedProperties")
_ITEMS: Final = ("prefixItems", "items", "additionalItems", "unevaluatedItems")
"""Keywords of which one schema at most looks at one member, or at one item."""
_ALSO: Final = ("patternProperties", "propertyNames", "contains", "contentSchema")
"""Keywords whose schemas all may look at one member or item, beside those above."""
_COUNTED: Final = ("enum", "const", "required", "dependentRequired")
"""Keywords whose own size is work each time."""
_AGAIN: Final = 3
"""How often the schemas beside ``unevaluated…`` are looked at: once more to see what they evaluated, and to be sure."""

_CHARACTERS: Final = 64
"""Characters of a text that a pattern reads in the time of one comparison."""
_ANYTHING: Final[Schema] = {}
_NOTHING: Final[Schema] = {"not": {}}
"""What ``true`` and ``false`` mean as schemas."""


class _Place(Struct, eq=False):
    """One schema in the document, and where it sends the value on to."""

    cost: int
    here: list[int]
    members: list[int]
    items: list[int]
    also: list[int]


class Weight:
    """The work in ``schema``, and what it is made of.

    Raises:
        SchemaError: it is too large, nests too deeply, refers to something outside itself or to itself in a circle.
    """

    def __init__(self, schema: Schema) -> None:
        self.document = Document(schema)
        self.keywords: set[str] = set()
        self.patterns: list[str] = []
        self._places: list[_Place] = []
        self._numbers: dict[int, int] = {}
        self._waiting: list[tuple[Schema, Schema]] = []
        self._number(schema, schema)
        while self._waiting:
            node, resource = self._waiting.pop()
            self._places[self._numbers[id(node)]] = self._place(node, resource)
        self._order = self._ordered()
        self._visits = [self._level(None)]
        """By level: how often a value there is looked at, from each place on."""

    def steps(self, value: Any, most: int) -> int:
        """How many comparisons ``value`` can take; counting ends above ``most``."""
        steps, depth, above, level = 0, 0, 0, [value]
        while level and steps <= most:
            # Whoever looks at a value goes once through what is in it, and for ``uniqueItems`` down to the bottom.
            visits = self.visits(depth) + above
            above = visits if "uniqueItems" in self.keywords else visits - above
            below: list[Any] = []
            count = len(level)
            for item in level:
                if isinstance(item, dict):
                    below += cast("Schema", item).values()
                elif isinstance(item, list):
                    below += cast("list[Any]", item)
                elif isinstance(item, str):
                    count += len(item) // _CHARACTERS
            steps += count * visits
            level, depth = below, depth + 1
        return steps

    def visits(self, depth: int) -> int:
        """How often one value ``depth`` levels down can be looked at."""
        levels = self._visits
        while depth >= len(levels):
            if len(levels) * len(self._places) > SCHEMA_STEPS:
                return SCHEMA_STEPS + 1  # even counting is too much work
            following = self._level(levels[-1])
            if following == levels[-1]:
                break  # and so on for ever
            levels.append(following)
        return levels[min(depth, len(levels) - 1)][0]

    def _level(self, above: list[int] | None) -> list[int]:
        """The visits one level further down than ``above``; without it, of the value itself."""
        visits = [0] * len(self._places)
        for number in self._order:
            place = self._places[number]
            count = place.cost
            if above is not None:
                one = max((above[n] for n in (*place.members, *place.items)), default=0)
                count = one + sum(above[n] for n in place.also)
            count += sum(visits[n] for n in place.here)
            visits[number] = min(count, SCHEMA_STEPS + 1)
        return visits

    # --- the graph ----------------------------------------------------------------------------------------------------

    def _number(self, node: Schema, resource: Schema) -> int:
        number = self._numbers.get(id(node))
        if number is None:
            number = self._numbers[id(node)] = len(self._places)
            self._places.append(_Place(1, [], [], [], []))
            self._waiting.append((node, resource))
        return number

    def _place(self, node: Schema, resource: Schema) -> _Place:
        def numbers(*keywords: str) -> list[int]:
            found = [schema for word in keywords for schema in _schemas(word, node.get(word))]
            return [self._number(schema, self.document.resource(schema, resource)) for schema in found]

        here = numbers(*_HERE)
        for word in _REFERENCES:
            if isinstance(node.get(word), str):
                targets = self.document.targets(word, node[word], resource)
                here += [self._number(target, base) for target, base in targets]
        if "unevaluatedProperties" in node or "unevaluatedItems" in node:
            here *= _AGAIN
        self.keywords.update(node)
        if isinstance(pattern := node.get("pattern"), str):
            self.patterns.append(pattern)
        cost = 1 + sum(_size(node[word]) for word in _COUNTED if word in node)
        return _Place(cost, here, numbers(*_MEMBERS), numbers(*_ITEMS), numbers(*_ALSO))

    def _ordered(self) -> list[int]:
        """Every place after those its value is sent on to as it is."""
        order: list[int] = []
        state = [0] * len(self._places)  # 1: begun, 2: done
        for start in range(len(self._places)):
            stack = [start]
            while stack:
                number = stack[-1]
                if state[number] == 0:
                    state[number] = 1
                    following = [n for n in self._places[number].here if state[n] != 2]
                    if any(state[n] == 1 for n in following):
                        raise SchemaError("it refers to itself in a circle")
                    stack += following
                else:
                    stack.pop()
                    if state[number] == 1:
                        state[number] = 2
                        order.append(number)
        return order


class Document:
    """Where the references of a schema lead. Nothing outside it is ever looked for."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self._id = "id" if "draft-04" in str(root.get("$schema")) else "$id"
        self._resources: dict[str, Schema] = {}
        self._anchors: dict[tuple[int, str], tuple[Schema, Schema]] = {}
        self._dynamic: dict[str, list[tuple[Schema, Schema]]] = {}
        count = 0
        waiting: list[tuple[Any, Schema, int]] = [(root, root, 0)]
        while waiting:
            item, resource, depth = waiting.pop()
            count += 1
            if count > SCHEMA_NODES:
                raise SchemaError(f"it is too large: it has more than {SCHEMA_NODES} parts")
            if depth > SCHEMA_DEPTH:
                raise SchemaError(f"it nests deeper than {SCHEMA_DEPTH} levels")
            if isinstance(item, dict):
                node = cast("Schema", item)
                resource = self.resource(node, resource)
                self._note(node, resource)
                waiting += [(child, resource, depth + 1) for child in node.values()]
            elif isinstance(item, list):
                waiting += [(child, resource, depth + 1) for child in cast("list[Any]", item)]

    def resource(self, node: Schema, around: Schema) -> Schema:
        """What a pointer in ``node`` begins at: the nearest part of the document with an id of its own."""
        return node if isinstance(node.get(self._id), str) else around

    def _note(self, node: Schema, resource: Schema) -> None:
        name = node.get(self._id)
        if isinstance(name, str) and self._resources.setdefault(name.rstrip("#"), node) is not node:
            raise SchemaError(f"two parts of it have the id {name!r}")
        for word in ("$anchor", "$dynamicAnchor"):
            anchor = node.get(word)
            if isinstance(anchor, str):
                if self._anchors.setdefault((id(resource), anchor), (node, resource))[0] is not node:
                    raise SchemaError(f"two parts of it have the anchor {anchor!r}")
                self._dynamic.setdefault(anchor, []).append((node, resource))
        if node is not self.root and isinstance(node.get("$schema"), str):
            raise SchemaError("a part of it names a dialect of its own")

    def resolve(self, reference: str, resource: Schema) -> tuple[Schema, Schema]:
        """The schema ``reference`` names, and the resource that stands in."""
        name, _, fragment = reference.partition("#")
        if name:
            found = self._resources.get(name)
            if found is None:
                raise SchemaError(f"it refers to {reference!r}, and remote references are never fetched")
            resource = found
        if fragment and not fragment.startswith("/"):
            target = self._anchors.get((id(resource), fragment))
        else:
            target = self._at(unquote(fragment), resource)
        if target is None:
            raise SchemaError(f"the reference {reference!r} leads nowhere")
        return target

    def targets(self, keyword: str, reference: str, resource: Schema) -> list[tuple[Schema, Schema]]:
        """All that ``reference`` may mean, when ``keyword`` leaves that to whoever refers to the document."""
        found = [self.resolve(reference, resource)]
        if keyword == "$recursiveRef":
            found.append((self.root, self.root))
        elif keyword == "$dynamicRef":
            found += self._dynamic.get(reference.rpartition("#")[2], ())
        return found

    def _at(self, pointer: str, resource: Schema) -> tuple[Schema, Schema] | None:
        node: Any = resource
        for step in pointer.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, list) and step.isdecimal():
                node = dict(enumerate(cast("list[Any]", node))).get(int(step))
            else:
                node = cast("Schema", node).get(step) if isinstance(node, dict) else None
            if isinstance(node, dict):
                resource = self.resource(cast("Schema", node), resource)
        if isinstance(node, bool):
            node = _ANYTHING if node else _NOTHING
        return (cast("Schema", node), resource) if isinstance(node, dict) else None


def _schemas(keyword: str, value: Any) -> list[Schema]:
    """The schemas in the value of a keyword."""
    if isinstance(value, dict):
        table = cast("Schema", value)
        found = list(table.values()) if keyword in _TABLES else [table]
    else:
        found = cast("list[Any]", value) if isinstance(value, list) else []
    return [
        schema if isinstance(schema, dict) else _ANYTHING
        for schema in found
        if isinstance(schema, dict | bool)
    ]


def _size(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_size, cast("Schema", value).values()))
    return 1 + sum(map(_size, cast("list[Any]", value))) if isinstance(value, list) else 1
