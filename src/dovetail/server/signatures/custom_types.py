"""Types that msgspec does not decode by itself, made decodable.

Each is a class made for one annotation that carries the function which decodes it; `hook` is the one
``dec_hook`` of all decoders. The functions get plain JSON values and raise ValueError with a reason.
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
"""Members of a union for which it is said why a value does not fit."""

Decode = Callable[[Any], Any]
_TAG: Final = "tag__"
_JSON_NAMES: Final[dict[Any, str]] = {dict: "object", list: "array", type(None): "null"}


class _Anything(type):
    # msgspec checks what a hook returns; a custom type stands for values of any class.
    def __instancecheck__(cls, instance: Any) -> bool:
        return True


class Custom(metaclass=_Anything):
    """The root of all types made here."""

    decode: ClassVar[Decode]


def custom(name: str, decode: Decode) -> type[Custom]:
    """A type whose values ``decode`` makes out of plain JSON values."""
    return _Anything(name, (Custom,), {"decode": staticmethod(decode)})  # pyright: ignore[reportReturnType]


def hook(kind: Any, value: Any) -> Any:
    """The ``dec_hook`` of every decoder."""
    return kind.decode(value)


def convert(value: Any, kind: Any) -> Any:
    """Plain JSON values into ``kind``. Raises a plain ValueError, to which an outer decoder adds its path."""
    try:
        return msgspec.convert(value, kind, str_keys=True, dec_hook=hook)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def choice(alternatives: Sequence[tuple[str, Any, frozenset[str]]]) -> type[Custom]:
    """A union whose members msgspec cannot tell apart: what each is called, its type, the members of its objects.

    All are tried in the author's order. Among objects that fit, the one that knows most of the members wins.
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
    """A closed set of JSON values, each standing for a Python one (enums and literals of any kind)."""

    def decode(value: Any) -> Any:
        for written, meant in values:
            if written == value and isinstance(written, bool) == isinstance(value, bool):
                return meant
        raise ValueError("Invalid enum value")

    return custom("OneOf", decode)


def textual(kind: type[Any]) -> type[Custom]:
    """A class whose constructor reads a string: paths, addresses."""

    def decode(value: Any) -> Any:
        if not isinstance(value, str):
            name = _JSON_NAMES.get(type(value), type(value).__name__)
            raise ValueError(f"Expected `str`, got `{name}`")
        try:
            return kind(value)
        except ValueError:
            raise ValueError(f"Invalid {kind.__name__}") from None  # its own text would show the value

    return custom(kind.__name__, decode)


def checked(kind: Any, checks: Sequence[tuple[str, Callable[[Any], bool]]]) -> type[Custom]:
    """``kind`` with checks that msgspec cannot make; each has the reason given when it fails."""

    def decode(value: Any) -> Any:
        result = convert(value, kind)
        for why, check in checks:
            if not check(result):
                raise ValueError(why)
        return result

    return custom("Checked", decode)


def mirror(shape: Shape, types: Sequence[Any]) -> type[Custom]:
    """A class of the author's, decoded through a Struct like it with members of these ``types``.

    The Struct is made when the first value comes: most classes are decoded as they are, and those that refer to
    themselves have no types before the walk has come back to them.
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
    """A Struct with these ``fields``, decoded as ``types``. Raises ValueError if two have one name on the wire."""
    members = [_member(field, kind) for field, kind in zip(fields, types, strict=True)]
    if tag is not None:
        members.append((_TAG, Literal[tag[1]], msgspec.field(name=tag[0], default=tag[1])))
    # What is made lives only until its members are taken out.
    return msgspec.defstruct(
        name, members, kw_only=not array, array_like=array, forbid_unknown_fields=closed, gc=False
    )


def _member(field: Field, kind: Any) -> tuple[str, Any, Any]:
    """Its default is copied for each value if it is a mutable one, as a caller would expect."""
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
