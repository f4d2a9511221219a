"""Types that msgspec does not support, made decodable.

Each is a generated class with a decode function; `hook` is the ``dec_hook`` of all decoders. The functions take plain
JSON values and raise ValueError with a reason.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Literal, Union, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from ...shapes import is_object
from .objects import Field, Shape

ALTERNATIVES_SHOWN: Final = 4
"""Members of a union whose mismatch is explained in an error."""

Decode = Callable[[Any], Any]
_TAG: Final = "tag__"
_JSON_NAMES: Final[dict[Any, str]] = {dict: "object", list: "array", type(None): "null"}


class _Anything(type):
    # msgspec checks what a hook returns; a custom type accepts values of any class.
    def __instancecheck__(cls, instance: Any) -> bool:
        return True


class Custom(metaclass=_Anything):
    """The base class of all generated types."""

    decode: ClassVar[Decode]


def custom(name: str, decode: Decode) -> type[Custom]:
    """A type whose values ``decode`` creates from plain JSON values."""
    return _Anything(name, (Custom,), {"decode": staticmethod(decode)})  # pyright: ignore[reportReturnType]


def hook(kind: Any, value: Any) -> Any:
    """The ``dec_hook`` of every decoder."""
    return kind.decode(value)


def convert(value: Any, kind: Any) -> Any:
    """Convert plain JSON values to ``kind``. Raises a plain ValueError; an outer decoder adds its path."""
    try:
        return msgspec.convert(value, kind, str_keys=True, dec_hook=hook)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def choice(alternatives: Sequence[tuple[str, Any, frozenset[str]]]) -> type[Custom]:
    """A union that msgspec cannot decode: label, type and object members of each alternative.

    All are tried in the author's order. Among the objects that fit, the one that knows most of the members wins.
    """

    def decode(value: Any) -> Any:
        best, best_score = UNSET, -1
        reasons: list[str] = []
        for label, kind, keys in alternatives:
            try:
                found = convert(value, kind)
            except ValueError as error:
                reasons.append(f"{label}: {str(error).replace(' - at ', ' at ')}")
                continue
            score = len(keys.intersection(value)) if is_object(value) else 0
            if score > best_score:
                best, best_score = found, score
        if isinstance(best, UnsetType):
            raise ValueError(f"no alternative fits ({'; '.join(reasons[:ALTERNATIVES_SHOWN])})")
        return best

    return custom("Choice", decode)


def one_of(values: Sequence[tuple[Any, Any]]) -> type[Custom]:
    """An enumeration of JSON values, each with its Python value (enums and literals of any kind)."""

    def decode(value: Any) -> Any:
        for written, meant in values:
            if written == value and isinstance(written, bool) == isinstance(value, bool):
                return meant
        raise ValueError("Invalid enum value")

    return custom("OneOf", decode)


def textual(kind: type[Any]) -> type[Custom]:
    """A class whose constructor takes a string: paths, addresses."""

    def decode(value: Any) -> Any:
        if not isinstance(value, str):
            name = _JSON_NAMES.get(type(value), type(value).__name__)
            raise ValueError(f"Expected `str`, got `{name}`")
        try:
            return kind(value)
        except ValueError:
            raise ValueError(f"Invalid {kind.__name__}") from None  # the original message contains the value

    return custom(kind.__name__, decode)


def checked(kind: Any, checks: Sequence[tuple[str, Callable[[Any], bool]]]) -> type[Custom]:
    """``kind`` with checks that msgspec does not support; each has an error message."""

    def decode(value: Any) -> Any:
        result = convert(value, kind)
        for why, check in checks:
            if not check(result):
                raise ValueError(why)
        return result

    return custom("Checked", decode)


def mirror(shape: Shape, types: Sequence[Any]) -> type[Custom]:
    """A class of the author, decoded through a generated Struct with members of these ``types``.

    The Struct is created with the first value: most classes do not need it, and the types of a recursive class are
    known only after the walk has finished.
    """
    struct: Any = None

    def decode(value: Any) -> Any:
        nonlocal struct
        if struct is None:
            struct = struct_of(
                shape.name, shape.fields, types, array=shape.array, closed=shape.closed, tag=shape.tag
            )
        values = msgspec.structs.asdict(convert(value, struct))
        values.pop(_TAG, None)
        return shape.build(values)

    return custom(shape.name, decode)


def struct_of(
    name: str,
    fields: Sequence[Field],
    types: Sequence[Any],
    *,
    array: bool = False,
    closed: bool = False,
    tag: tuple[str, Any] | None = None,
) -> type[Struct]:
    """A Struct with ``fields``, decoded as ``types``. Raises ValueError if two have one name on the wire."""
    members = [_member(field, kind) for field, kind in zip(fields, types, strict=True)]
    if tag is not None:
        members.append((_TAG, Literal[tag[1]], msgspec.field(name=tag[0], default=tag[1])))
    # The instance exists only until its members are read.
    return msgspec.defstruct(
        name, members, kw_only=not array, array_like=array, forbid_unknown_fields=closed, gc=False
    )


def _member(field: Field, kind: Any) -> tuple[str, Any, Any]:
    """A mutable default is copied for each value."""
    default = field.default
    if field.optional:
        return field.name, Union[kind, UnsetType], msgspec.field(name=field.key, default=UNSET)  # noqa: UP007
    if field.factory is not msgspec.NODEFAULT:
        return field.name, kind, msgspec.field(name=field.key, default_factory=field.factory)
    if isinstance(default, list | dict | set | bytearray | Struct):
        from copy import deepcopy

        copy = functools.partial(deepcopy, cast("Any", default))
        return field.name, kind, msgspec.field(name=field.key, default_factory=copy)
    return field.name, kind, msgspec.field(name=field.key, default=default)
