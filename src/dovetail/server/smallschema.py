"""A small JSON Schema validator, for raw schemas where jsonschema-rs is not installed.

It knows the keywords in `KEYWORDS`, follows references inside the document, and reports a few problems at
most. Patterns run in Python's `re`, on strings of limited length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from .signatures.problems import MOST, Problem

_DEEPEST: Final = 128
_LONGEST_MATCHED: Final = 4096
_MISSING: Final = object()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: Final[dict[str, Callable[[Any], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": _is_number,
    "integer": lambda value: _is_number(value) and value == int(value),
}
_NUMBERS: Final[dict[str, tuple[str, Callable[[Any, Any], bool]]]] = {
    "minimum": ("must be at least {}", lambda value, bound: value >= bound),
    "maximum": ("must be at most {}", lambda value, bound: value <= bound),
    "exclusiveMinimum": ("must be greater than {}", lambda value, bound: value > bound),
    "exclusiveMaximum": ("must be less than {}", lambda value, bound: value < bound),
    "multipleOf": ("must be a multiple of {}", lambda value, bound: value % bound == 0),
}
_SIZES: Final[dict[str, tuple[type[Any], str, Callable[[int, int], bool]]]] = {
    "minLength": (str, "must have at least {} characters", lambda size, bound: size >= bound),
    "maxLength": (str, "must have at most {} characters", lambda size, bound: size <= bound),
    "minItems": (list, "must have at least {} items", lambda size, bound: size >= bound),
    "maxItems": (list, "must have at most {} items", lambda size, bound: size <= bound),
    "minProperties": (dict, "must have at least {} members", lambda size, bound: size >= bound),
    "maxProperties": (dict, "must have at most {} members", lambda size, bound: size <= bound),
}
KEYWORDS: Final = frozenset((*_NUMBERS, *_SIZES)) | {
    "type", "const", "enum", "pattern", "required", "properties", "additionalProperties", "items",
    "prefixItems", "anyOf", "oneOf", "allOf", "not", "$ref", "$defs", "definitions",
}  # fmt: skip
"""What is enforced."""


class Validator:
    """Checks values against one schema document."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root = schema

    def validate(self, value: Any) -> list[Problem]:
        """The first problems of ``value``; an empty list when it fits."""
        found: list[Problem] = []
        for problem in self._check(value, self._root, "", 0):
            found.append(problem)
            if len(found) == MOST:
                break
        return found

    def _fits(self, value: Any, schema: Any, depth: int) -> bool:
        return next(self._check(value, schema, "", depth), None) is None

    def _check(self, value: Any, schema: Any, path: str, depth: int) -> Iterator[Problem]:
        if schema is True or not isinstance(schema, dict | bool):
            return
        if schema is False or depth > _DEEPEST:
            yield Problem(path, "is not allowed here" if schema is False else "nests too deeply")
            return
        rules = cast("dict[str, Any]", schema)
        reason = _own_reason(value, rules)
        if reason is not None:
            yield Problem(path, reason)
            return
        if isinstance(value, dict):
            yield from self._members(cast("dict[str, Any]", value), rules, path, depth)
        elif isinstance(value, list):
            yield from self._items(cast("list[Any]", value), rules, path, depth)
        yield from self._combined(value, rules, path, depth)

    def _members(
        self, value: dict[str, Any], rules: dict[str, Any], path: str, depth: int
    ) -> Iterator[Problem]:
        properties: dict[str, Any] = rules.get("properties", {})
        prefix = f"{path}." if path else ""
        for name in rules.get("required", ()):
            if name not in value:
                yield Problem(f"{prefix}{name}", "is required")
        other = rules.get("additionalProperties", True) if "patternProperties" not in rules else True
        for name, item in value.items():
            if name in properties:
                yield from self._check(item, properties[name], f"{prefix}{name}", depth + 1)
            elif other is False:
                yield Problem(path, "has a member that is not allowed")
            else:
                yield from self._check(item, other, f"{path}[...]", depth + 1)

    def _items(self, value: list[Any], rules: dict[str, Any], path: str, depth: int) -> Iterator[Problem]:
        prefix: Sequence[Any] = rules.get("prefixItems", ())
        for index, item in enumerate(value):
            schema = prefix[index] if index < len(prefix) else rules.get("items", True)
            yield from self._check(item, schema, f"{path}[{index}]", depth + 1)

    def _combined(self, value: Any, rules: dict[str, Any], path: str, depth: int) -> Iterator[Problem]:
        if "$ref" in rules:
            yield from self._check(value, self._resolve(rules["$ref"]), path, depth + 1)
        for schema in rules.get("allOf", ()):
            yield from self._check(value, schema, path, depth + 1)
        if "anyOf" in rules and not any(self._fits(value, schema, depth + 1) for schema in rules["anyOf"]):
            yield Problem(path, "fits none of the alternatives")
        if "oneOf" in rules and sum(self._fits(value, schema, depth + 1) for schema in rules["oneOf"]) != 1:
            yield Problem(path, "must fit exactly one of the alternatives")
        if "not" in rules and self._fits(value, rules["not"], depth + 1):
            yield Problem(path, "is excluded")

    def _resolve(self, reference: str) -> Any:
        """The subschema a JSON pointer of this document names; what cannot be found allows nothing."""
        node: Any = self._root
        for step in reference.lstrip("#").strip("/").split("/") if reference != "#" else ():
            step = step.replace("~1", "/").replace("~0", "~")
            node = cast("dict[str, Any]", node).get(step, _MISSING) if isinstance(node, dict) else _MISSING
        return False if node is _MISSING else node


def _own_reason(value: Any, rules: dict[str, Any]) -> str | None:
    """Why the value itself, without what is in it, does not fit."""
    kinds: Any = rules.get("type")
    if kinds is not None:
        names = cast("list[str]", [kinds] if isinstance(kinds, str) else kinds)
        if not any(_TYPES.get(name, lambda _: True)(value) for name in names):
            return f"must be {' or '.join(names)}"
    if "enum" in rules and not any(_same(value, allowed) for allowed in rules["enum"]):
        return f"must be one of {', '.join(map(repr, rules['enum'][:20]))}"
    if "const" in rules and not _same(value, rules["const"]):
        return f"must be {rules['const']!r}"
    if _is_number(value):
        checks = (
            (text, bound, holds)
            for word, (text, holds) in _NUMBERS.items()
            if (bound := rules.get(word)) is not None
        )
        return next((text.format(bound) for text, bound, holds in checks if not holds(value, bound)), None)
    for word, (kind, text, holds) in _SIZES.items():
        if isinstance(value, kind) and word in rules and not holds(len(value), rules[word]):
            return text.format(rules[word])
    pattern = rules.get("pattern")
    if isinstance(value, str) and pattern is not None:
        if len(value) > _LONGEST_MATCHED:
            return "is too long to be matched"
        if re.search(pattern, value) is None:
            return f"must match {pattern}"
    return None


def _same(left: Any, right: Any) -> bool:
    """JSON equality: 1 is 1.0, but never true."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def keywords_of(schema: Any) -> set[str]:
    """The keywords a schema uses, without the names of its members and definitions."""
    found: set[str] = set()
    if isinstance(schema, list):
        return found.union(*(keywords_of(item) for item in cast("list[Any]", schema)))
    if not isinstance(schema, dict):
        return found
    for keyword, value in cast("dict[str, Any]", schema).items():
        found.add(keyword)
        if keyword in ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas"):
            found.update(*(keywords_of(item) for item in cast("dict[str, Any]", value).values()))
        elif keyword not in ("const", "enum", "default", "examples", "required"):
            found |= keywords_of(value)
    return found
