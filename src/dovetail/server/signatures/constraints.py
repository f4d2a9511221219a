"""Constraints on values: handed to msgspec where it enforces them, checked by hand where it does not."""

from __future__ import annotations

import datetime
import decimal
import operator
import re
import typing
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ...errors import RegistrationError
from . import custom_types as customs
from .annotations import BOUNDS, LENGTHS, Notes

_KEYWORDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}
_LENGTH_WORDS = {"string": "Length", "array": "Items", "object": "Properties"}
_NUMERIC = (int, float, decimal.Decimal, datetime.timedelta, datetime.datetime, datetime.date, datetime.time)
_CHECKS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "ge": ("must be at least {}", operator.ge),
    "gt": ("must be greater than {}", operator.gt),
    "le": ("must be at most {}", operator.le),
    "lt": ("must be less than {}", operator.lt),
    "multiple_of": ("must be a multiple of {}", lambda value, step: value % step == 0),
    "min_length": ("must have a length of at least {}", lambda value, size: len(value) >= size),
    "max_length": ("must have a length of at most {}", lambda value, size: len(value) <= size),
    "pattern": ("must match {}", lambda value, pattern: re.search(pattern, str(value)) is not None),
    "tz": ("must have a timezone", lambda value, wanted: (value.tzinfo is not None) == wanted),
}


def apply(base: Any, kind: Any, notes: Notes) -> tuple[Any, bool]:
    """``kind`` with the constraints of ``notes``, and whether msgspec does it as the author wrote it."""
    if not notes.predicates:
        try:
            annotated = Annotated[kind, Meta(**notes.constraints)]
            msgspec.json.Decoder(annotated, dec_hook=customs.hook)
        except TypeError:
            pass
        else:
            return annotated, notes.native
    checks = [_check(name, bound) for name, bound in notes.constraints.items()]
    checks += [("is not acceptable", predicate) for predicate in notes.predicates]
    if not any(_suits(base, name) for name in notes.constraints) and not notes.predicates:
        raise RegistrationError(f"{', '.join(notes.constraints)} cannot constrain {base!r}")
    return customs.checked(kind, checks), False


def distribute(members: Sequence[Any], metadata: Sequence[Any], notes: Notes) -> tuple[Any, ...]:
    """A constraint on a union means those of its members it fits: ``int | None`` with a minimum is usual."""
    fitting = [any(_suits(member, name) for name in notes.constraints) for member in members]
    if notes.predicates and not notes.constraints:
        fitting = [member is not type(None) for member in members]
    if not any(fitting):
        raise RegistrationError(f"{', '.join(notes.constraints)} fits no member of the union")
    limits = tuple(item for item in metadata if not isinstance(item, str))
    return tuple(
        Annotated[member, *limits] if fits else member for member, fits in zip(members, fitting, strict=True)
    )


def keywords(schema: dict[str, Any], constraints: dict[str, Any]) -> dict[str, Any]:
    """What JSON Schema calls these constraints on a value of type ``schema["type"]``."""
    kind: Any = schema.get("type")
    words: dict[str, Any] = {}
    for name, bound in constraints.items():
        if name in LENGTHS and kind in _LENGTH_WORDS:
            words[name[:3] + _LENGTH_WORDS[kind]] = _length(schema, bound)
        elif name in _KEYWORDS and isinstance(bound, str | int | float):
            words[_KEYWORDS[name]] = bound
    return words


def _length(schema: dict[str, Any], bound: int) -> int:
    encoded = schema.get("contentEncoding") == "base64"
    return 4 * ((bound + 2) // 3) if encoded else bound


def _check(name: str, bound: Any) -> tuple[str, Callable[[Any], bool]]:
    text, compare = _CHECKS[name]

    def check(value: Any) -> bool:
        return value is None or compare(value, bound)

    return text.format(bound), check


def _suits(annotation: Any, constraint: str) -> bool:
    if typing.get_origin(annotation) is Annotated:
        annotation = typing.get_args(annotation)[0]
    kind = typing.get_origin(annotation) or annotation
    if not isinstance(kind, type) or kind is type(None):
        return False
    if constraint in BOUNDS:
        return issubclass(kind, _NUMERIC) and kind is not bool
    if constraint in LENGTHS:
        return hasattr(kind, "__len__")
    return issubclass(kind, str) or (
        constraint == "tz" and issubclass(kind, datetime.datetime | datetime.time)
    )
