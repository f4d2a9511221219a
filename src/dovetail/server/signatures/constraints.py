"""The metadata in ``Annotated``: schema keywords, and constraints on the value.

Supported are a bare string (the description), ``msgspec.Meta``, ``pydantic.Field``, pydantic's ``StringConstraints``,
the classes of ``annotated_types``, and any object with ``documentation``. Duck typing tells them apart, so none of
these packages is imported here. msgspec enforces the constraints that it supports; the others are checked in Python.
"""

from __future__ import annotations

import datetime
import decimal
import operator
import re
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Final, cast

import msgspec
from msgspec import Meta, Struct

from ...errors import RegistrationError
from . import custom_types, pydantic_models

_BOUNDS: Final = ("gt", "ge", "lt", "le", "multiple_of")
_LENGTHS: Final = ("min_length", "max_length")
_CONSTRAINTS: Final = (*_BOUNDS, *_LENGTHS, "pattern", "tz")
_FAMILIES: Final = ("annotated_types", "pydantic", "pydantic_core")
_KEYWORDS: Final = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}
_LENGTH_WORDS: Final = {"string": "Length", "array": "Items", "object": "Properties"}
_NUMERIC: Final = (
    int, float, decimal.Decimal, datetime.timedelta, datetime.datetime, datetime.date, datetime.time,
)  # fmt: skip
_CHECKS: Final[dict[str, tuple[str, Callable[[Any, Any], bool]]]] = {
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


class AnnotatedMetadata(Struct):
    """The merged metadata of one annotation; the later of two items wins."""

    words: dict[str, Any] = {}
    """JSON Schema keywords: description, title, examples and custom members."""
    constraints: dict[str, Any] = {}
    """Constraints, by the names of `msgspec.Meta`."""
    predicates: list[Callable[[Any], bool]] = []
    native: bool = True
    """msgspec enforces all of them."""
    pydantic: bool = False
    """Only pydantic can enforce them."""

    @property
    def constrains(self) -> bool:
        return bool(self.constraints or self.predicates)


def read_metadata(items: Iterable[Any]) -> AnnotatedMetadata:
    """Merge the metadata items of an ``Annotated``."""
    found = AnnotatedMetadata()
    for item in _flat(items):
        found.words.update(_words(item))
        constraints = _constraints(item)
        found.constraints.update(constraints)
        predicate = type(item).__name__ == "Predicate" and _family(item) in _FAMILIES
        if predicate:
            found.predicates.append(item.func)
        found.native = found.native and not predicate and (isinstance(item, Meta) or not constraints)
        found.pydantic = found.pydantic or pydantic_models.needs_pydantic(item)
    return found


def _flat(items: Iterable[Any]) -> Iterable[Any]:
    for item in items:
        yield item
        if pydantic_models.is_field(item):
            yield from item.metadata  # the constraints of Field(ge=…, pattern=…)


def _family(item: Any) -> str:
    return type(item).__module__.partition(".")[0]


def _words(item: Any) -> dict[str, Any]:
    if isinstance(item, str):
        return {"description": item}
    documentation = getattr(item, "documentation", None)
    if isinstance(documentation, str):
        return {"description": documentation}
    if not isinstance(item, Meta) and not pydantic_models.is_field(item):
        return {}
    names = ("title", "description", "examples")
    words = {name: value for name in names if (value := getattr(item, name)) is not None}
    extra = item.extra_json_schema if isinstance(item, Meta) else item.json_schema_extra
    if isinstance(extra, dict):
        words.update(cast("dict[str, Any]", extra))
    return words


def _constraints(item: Any) -> dict[str, Any]:
    if not isinstance(item, Meta) and (_family(item) not in _FAMILIES or pydantic_models.is_field(item)):
        return {}
    found = {name: value for name in _CONSTRAINTS if (value := getattr(item, name, None)) is not None}
    pattern = found.get("pattern")
    if isinstance(pattern, re.Pattern):
        found["pattern"] = cast("re.Pattern[str]", pattern).pattern
    if found.get("tz") is ...:
        found["tz"] = True  # annotated_types.Timezone(...): any timezone, but not none
    elif not isinstance(found.get("tz", True), bool):
        del found["tz"]  # an offset does not identify a timezone
    if not found.get("min_length", 1):
        del found["min_length"]  # annotated_types.Len writes "no bound" as zero
    return found


def constrained(base: Any, kind: Any, metadata: AnnotatedMetadata) -> tuple[Any, bool]:
    """``kind`` with the constraints of ``metadata``, and whether msgspec supports the result unchanged."""
    if not metadata.predicates:
        try:
            annotated = Annotated[kind, Meta(**metadata.constraints)]
            msgspec.json.Decoder(annotated, dec_hook=custom_types.hook)
        except TypeError:
            pass
        else:
            return annotated, metadata.native
    checks = [_check(name, bound) for name, bound in metadata.constraints.items()]
    checks += [("is not acceptable", predicate) for predicate in metadata.predicates]
    if not any(_suits(base, name) for name in metadata.constraints) and not metadata.predicates:
        raise RegistrationError(f"{', '.join(metadata.constraints)} cannot constrain {base!r}")
    return custom_types.checked(kind, checks), False


def distributed(members: Sequence[Any], items: Sequence[Any], metadata: AnnotatedMetadata) -> tuple[Any, ...]:
    """Apply the constraints of a union to the members that they fit: ``int | None`` with a minimum is usual."""
    fitting = [any(_suits(member, name) for name in metadata.constraints) for member in members]
    if metadata.predicates and not metadata.constraints:
        fitting = [member is not type(None) for member in members]
    if not any(fitting):
        raise RegistrationError(f"{', '.join(metadata.constraints)} fits no member of the union")
    limits = tuple(item for item in items if not isinstance(item, str))
    return tuple(
        Annotated[member, *limits] if fits else member for member, fits in zip(members, fitting, strict=True)
    )


def keywords(schema: dict[str, Any], constraints: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema keywords of these constraints on a value of type ``schema["type"]``."""
    kind: Any = schema.get("type")
    words: dict[str, Any] = {}
    for name, bound in constraints.items():
        if name in _LENGTHS and kind in _LENGTH_WORDS:
            encoded = schema.get("contentEncoding") == "base64"
            words[name[:3] + _LENGTH_WORDS[kind]] = 4 * ((bound + 2) // 3) if encoded else bound
        elif name in _KEYWORDS and isinstance(bound, str | int | float):
            words[_KEYWORDS[name]] = bound
    return words


def _check(name: str, bound: Any) -> tuple[str, Callable[[Any], bool]]:
    text, compare = _CHECKS[name]
    return text.format(bound), lambda value: value is None or compare(value, bound)


def _suits(annotation: Any, constraint: str) -> bool:
    if typing.get_origin(annotation) is Annotated:
        annotation = typing.get_args(annotation)[0]
    kind = typing.get_origin(annotation) or annotation
    if not isinstance(kind, type) or kind is type(None):
        return False
    if constraint in _BOUNDS:
        return issubclass(kind, _NUMERIC) and kind is not bool
    if constraint in _LENGTHS:
        return hasattr(kind, "__len__")
    return issubclass(kind, str) or (
        constraint == "tz" and issubclass(kind, datetime.datetime | datetime.time)
    )
