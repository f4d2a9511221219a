"""What stands beside a type in ``Annotated``: words for the schema, and constraints on the value.

Understood are a bare string (the description), ``msgspec.Meta``, ``pydantic.Field``, pydantic's
``StringConstraints``, the classes of ``annotated_types``, and anything with a ``documentation``. They are
told apart by what they offer, so that none of these packages is imported here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

from msgspec import Meta

from . import pydantic_models as foreign

BOUNDS = ("gt", "ge", "lt", "le", "multiple_of")
LENGTHS = ("min_length", "max_length")
CONSTRAINTS = (*BOUNDS, *LENGTHS, "pattern", "tz")
_FAMILIES = ("annotated_types", "pydantic", "pydantic_core")


class Notes(NamedTuple):
    """The metadata of one annotation, added up."""

    words: dict[str, Any]
    """JSON Schema keywords: description, title, examples and what the author added."""
    constraints: dict[str, Any]
    """By the names `msgspec.Meta` uses."""
    predicates: tuple[Callable[[Any], bool], ...]
    native: bool
    """msgspec enforces all of it by itself."""
    foreign: bool
    """Only pydantic can enforce it."""


def read(metadata: Iterable[Any]) -> Notes:
    """Add up the metadata of an ``Annotated``; of two that say the same thing the later wins."""
    words: dict[str, Any] = {}
    constraints: dict[str, Any] = {}
    predicates: list[Callable[[Any], bool]] = []
    native = True
    alien = False
    for item in _flat(metadata):
        words.update(_words(item))
        found = _constraints(item)
        constraints.update(found)
        if _is(item, "Predicate"):
            predicates.append(item.func)
        native = native and (isinstance(item, Meta) or not found)
        alien = alien or foreign.needs_pydantic(item)
    return Notes(words, constraints, tuple(predicates), native and not predicates, alien)


def _flat(metadata: Iterable[Any]) -> Iterable[Any]:
    for item in metadata:
        yield item
        if foreign.is_field(item):
            yield from item.metadata  # what Field(ge=…, pattern=…) means in constraints


def _words(item: Any) -> dict[str, Any]:
    if isinstance(item, str):
        return {"description": item}
    documentation = getattr(item, "documentation", None)
    if isinstance(documentation, str):
        return {"description": documentation}
    if not isinstance(item, Meta) and not foreign.is_field(item):
        return {}
    names = ("title", "description", "examples")
    words = {name: value for name in names if (value := getattr(item, name)) is not None}
    extra = item.extra_json_schema if isinstance(item, Meta) else item.json_schema_extra
    if isinstance(extra, dict):
        words.update(cast("dict[str, Any]", extra))
    return words


def _constraints(item: Any) -> dict[str, Any]:
    if not isinstance(item, Meta) and type(item).__module__.partition(".")[0] not in _FAMILIES:
        return {}
    if foreign.is_field(item):
        return {}
    found = {name: value for name in CONSTRAINTS if (value := getattr(item, name, None)) is not None}
    pattern = found.get("pattern")
    if isinstance(pattern, re.Pattern):
        found["pattern"] = cast("re.Pattern[str]", pattern).pattern
    if found.get("tz") is ...:
        found["tz"] = True  # annotated_types.Timezone(...): any, but one there must be
    elif not isinstance(found.get("tz", True), bool):
        del found["tz"]  # a particular zone cannot be told from an offset
    if not found.get("min_length", 1):
        del found["min_length"]  # annotated_types.Len writes "no bound" as zero
    return found


def _is(item: Any, name: str) -> bool:
    return type(item).__name__ == name and type(item).__module__.partition(".")[0] in _FAMILIES
