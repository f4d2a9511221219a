"""Types that msgspec does not decode by itself, made decodable.

Each is a class made for one annotation that carries the function which decodes it; `hook` is the one
``dec_hook`` of all decoders. The functions get plain JSON values and raise ValueError with a reason.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from ...settings import ALTERNATIVES_SHOWN

Decode = Callable[[Any], Any]


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


class Alternative(Struct, frozen=True, eq=False):
    """One member of a union."""

    type: Any
    label: str
    keys: frozenset[str] = frozenset()
    """The members of an object of this type."""


def choice(alternatives: Sequence[Alternative]) -> type[Custom]:
    """A union whose members msgspec cannot tell apart.

    All are tried in the author's order. Among objects that fit, the one that knows most of the members wins.
    """

    def decode(value: Any) -> Any:
        best, best_score = UNSET, -1
        reasons: list[str] = []
        for alternative in alternatives:
            try:
                found = convert(value, alternative.type)
            except ValueError as error:
                reasons.append(f"{alternative.label}: {str(error).replace(' - at ', ' at ')}")
                continue
            score = len(alternative.keys.intersection(value)) if isinstance(value, dict) else 0  # pyright: ignore[reportUnknownArgumentType]
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
            raise ValueError(f"Expected `str`, got `{_json_name(value)}`")
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


def mirror(name: str) -> type[Custom]:
    """A class of the author's, decoded through a Struct like it. Call `reflect` once those are known."""

    def decode(value: Any) -> Any:
        raise AssertionError(f"{name} was never reflected")

    return custom(name, decode)


class Member(Struct, frozen=True, eq=False):
    """One member of a mirrored class."""

    name: str
    type: Any
    key: str
    default: Any
    factory: Any = msgspec.field(default_factory=lambda: msgspec.NODEFAULT)


def reflect(
    image: type[Custom],
    members: Callable[[], Sequence[Member]],
    build: Callable[[dict[str, Any]], Any],
    *,
    array: bool = False,
    closed: bool = False,
    tag: tuple[str, Any] | None = None,
) -> None:
    """Give ``image`` its members; ``build`` makes the object of the author's class out of them.

    The Struct is made when the first value comes: most classes are decoded as they are.
    """
    struct: Any = None

    def decode(value: Any) -> Any:
        nonlocal struct
        if struct is None:
            fields = [(m.name, m.type, default_field(m.default, m.factory, m.key)) for m in members()]
            if tag is not None:
                fields.append(("tag__", Literal[tag[1]], msgspec.field(name=tag[0], default=tag[1])))
            struct = msgspec.defstruct(
                image.__name__, fields, kw_only=not array, array_like=array, forbid_unknown_fields=closed
            )
        values = msgspec.structs.asdict(convert(value, struct))
        values.pop("tag__", None)
        return build(values)

    image.decode = staticmethod(decode)


def default_field(default: Any, factory: Any, key: str | None) -> Any:
    """A Struct field with this default; a mutable one is copied for each call, as a caller would expect."""
    if factory is not msgspec.NODEFAULT and factory is not None:
        return msgspec.field(default_factory=factory, name=key)
    if isinstance(default, list | dict | set | bytearray | Struct):
        from copy import deepcopy

        return msgspec.field(default_factory=functools.partial(deepcopy, cast("Any", default)), name=key)
    return msgspec.field(default=default, name=key)


def _json_name(value: Any) -> str:
    names: dict[Any, str] = {dict: "object", list: "array", type(None): "null"}
    return names.get(type(value), type(value).__name__)
