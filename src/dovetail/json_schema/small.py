"""A small validator, where jsonschema-rs is not installed, or has found something wrong and cannot cheaply say what.

It knows the keywords in `KEYWORDS` and lets others pass, follows references inside the document, and reports a few
problems at most. Whoever calls it has counted the work before (`weight`). Patterns run in Python's `re`, so they must
be the author's own: those of a stranger are left out with ``patterns=False``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, cast

from ..settings import LONGEST_MATCHED, MOST_PROBLEMS, REASON_LENGTH, SCHEMA_VALUE_DEPTH, VALUES_SHOWN
from .problem import Problem
from .weight import Document


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
    "minimum": ("must be at least {}", operator.ge),
    "maximum": ("must be at most {}", operator.le),
    "exclusiveMinimum": ("must be greater than {}", operator.gt),
    "exclusiveMaximum": ("must be less than {}", operator.lt),
    "multipleOf": ("must be a multiple of {}", lambda value, bound: value % bound == 0),
}
_SIZES: Final[dict[str, tuple[type[Any], str, Callable[[Any, Any], bool]]]] = {
    "minLength": (str, "must have at least {} characters", operator.ge),
    "maxLength": (str, "must have at most {} characters", operator.le),
    "minItems": (list, "must have at least {} items", operator.ge),
    "maxItems": (list, "must have at most {} items", operator.le),
    "minProperties": (dict, "must have at least {} members", operator.ge),
    "maxProperties": (dict, "must have at most {} members", operator.le),
}
KEYWORDS: Final = frozenset((*_NUMBERS, *_SIZES)) | {
    "type", "const", "enum", "pattern", "required", "properties", "additionalProperties", "items",
    "prefixItems", "anyOf", "oneOf", "allOf", "not", "$ref", "$defs", "definitions",
}  # fmt: skip
"""What is enforced."""


class SmallValidator:
    """Checks values against one schema document."""

    def __init__(self, document: Document, *, patterns: bool) -> None:
        self._document = document
        self._patterns = patterns

    def problems(self, value: Any) -> list[Problem]:
        """The first problems of ``value``; an empty list when it fits."""
        return list(islice(self._check(value, self._document.root, "", 0), MOST_PROBLEMS))

    def _fits(self, value: Any, schema: Any, depth: int) -> bool:
        return next(self._check(value, schema, "", depth), None) is None

    def _check(self, value: Any, schema: Any, path: str, depth: int) -> Iterator[Problem]:
        if schema is True or not isinstance(schema, dict | bool):
            return
        if schema is False or depth > SCHEMA_VALUE_DEPTH:
            yield Problem(path, "is not allowed here" if schema is False else "nests too deeply")
            return
        rules = cast("dict[str, Any]", schema)
        reason = _own_reason(value, rules) or (self._mismatch(value, rules) if self._patterns else None)
        if reason is not None:
            yield Problem(path, reason[:REASON_LENGTH])
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
            target, _ = self._document.resolve(rules["$ref"], self._document.root)
            yield from self._check(value, target, path, depth + 1)
        for schema in rules.get("allOf", ()):
            yield from self._check(value, schema, path, depth + 1)
        if "anyOf" in rules and not any(self._fits(value, schema, depth + 1) for schema in rules["anyOf"]):
            yield Problem(path, "fits none of the alternatives")
        if "oneOf" in rules and sum(self._fits(value, schema, depth + 1) for schema in rules["oneOf"]) != 1:
            yield Problem(path, "must fit exactly one of the alternatives")
        if "not" in rules and self._fits(value, rules["not"], depth + 1):
            yield Problem(path, "is excluded")

    @staticmethod
    def _mismatch(value: Any, rules: dict[str, Any]) -> str | None:
        pattern = rules.get("pattern")
        if not isinstance(value, str) or pattern is None:
            return None
        if len(value) > LONGEST_MATCHED:
            return "is too long to be matched"
        return None if re.search(pattern, value) else f"must match {pattern}"


def _own_reason(value: Any, rules: dict[str, Any]) -> str | None:
    """Why the value itself, without what is in it, does not fit."""
    kinds: Any = rules.get("type")
    if kinds is not None:
        names = cast("list[str]", [kinds] if isinstance(kinds, str) else kinds)
        if not any(_TYPES.get(name, lambda _: True)(value) for name in names):
            return f"must be {' or '.join(names)}"
    if "enum" in rules and not any(_same(value, allowed) for allowed in rules["enum"]):
        return f"must be one of {', '.join(map(repr, rules['enum'][:VALUES_SHOWN]))}"
    if "const" in rules and not _same(value, rules["const"]):
        return f"must be {rules['const']!r}"
    if _is_number(value):
        for word, (text, holds) in _NUMBERS.items():
            if word in rules and not holds(value, rules[word]):
                return text.format(rules[word])
        return None
    for word, (kind, text, holds) in _SIZES.items():
        if isinstance(value, kind) and word in rules and not holds(len(value), rules[word]):
            return text.format(rules[word])
    return None


def _same(left: Any, right: Any) -> bool:
    """JSON equality: 1 is 1.0, but never true."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)
