"""Check whether one JSON Schema accepts everything that another does.

``narrower(a, b)`` returns why some value may fit ``a`` and not ``b``; no reasons mean that all values of ``a`` fit
``b``. What cannot be proven is a reason, too. Members that ``a`` does not declare are assumed not to be sent, unless it
has ``additionalProperties``.

Contracts use it as follows. Arguments are contravariant: every old call must fit the new schema,
``narrower(old, new)``. Results are covariant: every new result must fit the old one, ``narrower(new, old)``.
"""

from __future__ import annotations

import math
from typing import Any, Final

from .comparison_parts import (
    BOUNDS,
    IGNORED,
    KNOWN,
    OWNER,
    TOGETHER,
    WHOLE,
    Reason,
    Schema,
    allows,
    as_schema,
    conjunction,
    empty,
    finite_values,
    joined,
    local_references,
    member,
    never,
    number_reasons,
    overlap,
    plain,
    possible_types,
    prefix_of,
    rest_of,
    shown_value,
    shown_values,
)
from .keywords import DEFINITIONS
from .problem import SchemaError
from .references import target
from .validation import Validator

MAX_DEPTH: Final = 64
MAX_STEPS: Final = 20_000
"""The deepest nesting and the most comparisons for one pair of schemas."""


def narrower(a: Any, b: Any) -> list[Reason]:
    """Return why some value of ``a`` does not fit ``b``; empty if all fit."""
    comparison = _Comparison(a, b)
    try:
        return comparison.of(a, b, "", 0)
    except _TooMuch:
        return [Reason("", "the schemas are too large to be compared")]
    except (TypeError, ValueError, KeyError, AttributeError):  # not trusted
        return [Reason("", "one of the schemas is not valid")]


class _TooMuch(Exception):
    pass


class _Comparison:
    """Compares one pair of documents."""

    def __init__(self, a: Any, b: Any) -> None:
        self._a = a
        self._b = b
        self._assumed: set[tuple[int, int]] = set()
        """Pairs that are being compared; a recursive pair is assumed to fit."""
        self._steps = 0
        self._held: list[Any] = []  # keep the objects alive, because their ids are keys

    def of(self, a: Any, b: Any, path: str, depth: int) -> list[Reason]:
        a, b = as_schema(a), as_schema(b)
        self._steps += 1
        if self._steps > MAX_STEPS or depth > MAX_DEPTH:
            raise _TooMuch
        if empty(b) or never(a):
            return []
        pair = (id(a), id(b))
        if pair in self._assumed:
            return []
        self._assumed.add(pair)
        self._held += (a, b)
        try:
            return self._compared(a, b, path, depth + 1)
        finally:
            self._assumed.discard(pair)

    def _compared(self, a: Schema, b: Schema, path: str, depth: int) -> list[Reason]:
        if a == b and self._same(a, b):
            return []
        if "$ref" in a:
            parts = self._parts_of(a, self._a)
            return self.of(parts[0] if len(parts) == 1 else {"allOf": parts}, b, path, depth)
        if "$ref" in b:
            return [one for part in self._parts_of(b, self._b) for one in self.of(a, part, path, depth)]
        unknown = [key for key in (*a, *b) if key not in KNOWN]
        if (unknown or any(key in schema for key in WHOLE for schema in (a, b))) and not self._same(a, b):
            return [Reason(path, f"{(unknown or list(WHOLE))[0]} cannot be compared")]
        finite = finite_values(a)
        if finite is not None:
            return self._each(finite, b, path)
        for word in ("anyOf", "oneOf"):
            if word in a:
                rest = {key: value for key, value in a.items() if key != word}
                return [one for part in a[word] for one in self.of(joined(part, rest), b, path, depth)]
        if "allOf" in a:
            rest = {key: value for key, value in a.items() if key != "allOf"}
            whole: Schema | None = rest
            for part in a["allOf"]:
                resolved = self._resolved(part, self._a)
                whole = None if whole is None or resolved is None else conjunction(whole, resolved)
            if whole is not None:
                return self.of(whole, b, path, depth)
            return self._any([*a["allOf"], rest], b, path, depth)
        return self._against(a, b, path, depth)

    def _against(self, a: Schema, b: Schema, path: str, depth: int) -> list[Reason]:
        """Compare a plain schema ``a`` with ``b``, which may have subschemas."""
        if any(word in b for word in ("allOf", "anyOf", "oneOf")):
            rest = {key: value for key, value in b.items() if key not in ("allOf", "anyOf", "oneOf")}
            found = [] if empty(rest) else self.of(a, rest, path, depth)
            found += [one for part in b.get("allOf", ()) for one in self.of(a, part, path, depth)]
            for word in ("anyOf", "oneOf"):
                if word in b:
                    found += self._alternatives(a, b[word], word, path, depth)
            return found
        types = possible_types(a)
        if len(types) > 1 and "type" in b and types - {"integer"} != {"number"}:
            return [one for kind in sorted(types) for one in self.of({**a, "type": kind}, b, path, depth)]
        lacking = {kind for kind in types if not allows(b, kind)}
        if lacking:
            return [Reason(path, f"{' or '.join(sorted(lacking))} is no longer accepted")]
        if "enum" in b or "const" in b:
            return [Reason(path, f"only {shown_values(b)} is accepted now")]
        found = self._written_alike(a, b, path, types)
        found += number_reasons(a, b, path) if types & {"number", "integer"} else []
        for name, default, most in BOUNDS:
            if name in b and OWNER[name] in types:
                own, other = a.get(name, default), b[name]
                if own > other if most else own < other:
                    found.append(
                        Reason(
                            path,
                            f"{name} is {other}, it was {'not limited' if own in (0, math.inf) else own}",
                        )
                    )
        if "object" in types:
            found += self._members(a, b, path, depth)
        if "array" in types:
            found += self._items(a, b, path, depth)
        return found

    def _written_alike(self, a: Schema, b: Schema, path: str, types: set[str]) -> list[Reason]:
        found: list[Reason] = []
        for names in TOGETHER:
            if names[0] in b and OWNER.get(names[0], "") in ("", *types):
                alike = all(plain(a.get(key)) == plain(b.get(key)) for key in names)
                if not alike or ("$ref" in repr([b.get(key) for key in names]) and not self._same({}, {})):
                    found.append(Reason(path, f"{names[0]} is new or has changed"))
        return found

    def _alternatives(self, a: Schema, parts: list[Any], word: str, path: str, depth: int) -> list[Reason]:
        """Check that one of ``parts`` accepts ``a``, or each of its types; for oneOf, that no other part does."""
        fits = [index for index, part in enumerate(parts) if not self.of(a, part, path, depth)]
        if fits:
            if word == "anyOf":
                return []
            others = [part for index, part in enumerate(parts) if index != fits[0]]
            if all(self._apart(a, part) for part in others):
                return []
        types = possible_types(a)
        if not fits and len(types) > 1:
            return [
                one
                for kind in sorted(types)
                for one in self._alternatives({**a, "type": kind}, parts, word, path, depth)
            ]
        if len(parts) == 1:
            return self.of(a, parts[0], path, depth)
        return [Reason(path, f"no alternative of {word} accepts everything that was accepted")]

    def _apart(self, a: Schema, other: Any) -> bool:
        """Return whether types and enumerated values prove that no value fits both."""
        found = self._resolved(other, self._b)
        if found is None:
            return False
        kinds, theirs = possible_types(a), possible_types(found)
        if not any(overlap(one, two) for one in kinds for two in theirs):
            return True
        if kinds != {"object"} or theirs != {"object"}:
            return False
        for name in set(a.get("required", ())) & set(found.get("required", ())):
            own = self._resolved(a.get("properties", {}).get(name, {}), self._a)
            its = self._resolved(found.get("properties", {}).get(name, {}), self._b)
            mine, yours = finite_values(own or {}), finite_values(its or {})
            if mine is not None and yours is not None and not any(one in yours for one in mine):
                return True
        return False

    def _members(self, a: Schema, b: Schema, path: str, depth: int) -> list[Reason]:
        found: list[Reason] = []
        required = set(a.get("required", ()))
        found += [
            Reason(f"{path}.{name}", "is required now")
            for name in b.get("required", ())
            if name not in required
        ]
        mine, theirs = a.get("properties", {}), b.get("properties", {})
        others = a.get("additionalProperties", "patternProperties" in a)
        rest = b.get("additionalProperties", True)
        for name in dict.fromkeys((*mine, *theirs)):
            own = mine.get(name, others)
            where = f"{path}.{name}"
            if name in theirs:
                found += self.of(own, theirs[name], where, depth)
            elif rest is False:
                found += [] if never(own) else [Reason(where, "is no longer accepted")]
            else:
                found += self.of(own, rest, where, depth)
        if others is not False:
            found += self.of(others, rest, f"{path}.*", depth)
        return found

    def _items(self, a: Schema, b: Schema, path: str, depth: int) -> list[Reason]:
        if b.get("uniqueItems") is True and a.get("uniqueItems") is not True and a.get("maxItems", 2) > 1:
            return [Reason(path, "items must be unique now")]
        mine, theirs = list(prefix_of(a)), list(prefix_of(b))
        most = a.get("maxItems", math.inf)
        found: list[Reason] = []
        for index in range(int(min(max(len(mine), len(theirs)), most))):
            own = mine[index] if index < len(mine) else rest_of(a)
            other = theirs[index] if index < len(theirs) else rest_of(b)
            found += self.of(own, other, f"{path}[{index}]", depth)
        if most > max(len(mine), len(theirs)):
            found += self.of(rest_of(a), rest_of(b), f"{path}[]", depth)
        return found

    def _each(self, values: list[Any], b: Schema, path: str) -> list[Reason]:
        """Check each of finitely many values."""
        definitions = {name: found for name in DEFINITIONS if (found := member(self._b, name)) is not None}
        if b is not self._b and local_references(b):
            return [Reason(path, "a reference cannot be compared")]
        try:
            validator = Validator({**b, **definitions})
            lost = [value for value in values if validator.problem(value)]
        except SchemaError as error:
            return [Reason(path, f"the schema cannot be read: {error}")]
        return [Reason(path, f"{shown_value(value)} is no longer accepted") for value in lost[:3]]

    def _any(self, parts: list[Any], b: Schema, path: str, depth: int) -> list[Reason]:
        """Check ``a`` against each of ``parts``; other parts may declare further members."""
        best: list[Reason] | None = None
        for part in parts:
            resolved = self._resolved(part, self._a)
            if resolved is None:
                continue
            found = self.of({"additionalProperties": True, **resolved}, b, path, depth)
            if not found:
                return []
            best = best or found
        return best or [Reason(path, "cannot be compared")]

    def _parts_of(self, schema: Schema, root: Any) -> list[Any]:
        """Return the parts of a schema with a reference."""
        found = target(schema["$ref"], root)
        rest = {key: value for key, value in schema.items() if key != "$ref" and key not in IGNORED}
        return [found if found is not None else {"$ref?": schema["$ref"]}, *([rest] if rest else [])]

    def _resolved(self, schema: Any, root: Any) -> Schema | None:
        schema = as_schema(schema)
        for _ in range(MAX_DEPTH):
            if "$ref" not in schema:
                return schema
            if len([key for key in schema if key not in IGNORED]) > 1:
                return None
            found = target(schema["$ref"], root)
            if found is None:
                return None
            schema = as_schema(found)
        return None

    def _same(self, a: Schema, b: Schema) -> bool:
        """Return whether two schemas are equal, including their definitions."""
        mine, yours = plain(self._a), plain(self._b)
        definitions = all(member(mine, name) == member(yours, name) for name in DEFINITIONS)
        definitions = definitions and (mine == yours or not local_references([a, b, mine, yours]))
        return definitions and plain(a) == plain(b)
