"""Types with a fixed JSON Schema, and the encoder of their values."""

from __future__ import annotations

import collections.abc as abc
import datetime
import decimal
import sys
import uuid
from typing import Any, Final, cast

import msgspec

SCALARS: Final[dict[Any, dict[str, Any]]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    bytearray: {"type": "string", "contentEncoding": "base64"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    datetime.timedelta: {"type": "string", "format": "duration"},
    decimal.Decimal: {"type": ["string", "number"], "format": "decimal"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    msgspec.Raw: {},
}

ARRAYS: Final[dict[Any, Any]] = {
    list: list,
    set: set,
    frozenset: frozenset,
    abc.Sequence: list,
    abc.MutableSequence: list,
    abc.Collection: list,
    abc.Iterable: list,
    abc.Set: set,
    abc.MutableSet: set,
}
MAPPINGS: Final[dict[Any, Any]] = {dict: dict, abc.Mapping: dict, abc.MutableMapping: dict}
"""Collections, and the class as which each is decoded."""

_TEXTUAL: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("pathlib", "PurePath", {"type": "string", "format": "path"}),
    ("ipaddress", "IPv4Address", {"type": "string", "format": "ipv4"}),
    ("ipaddress", "IPv6Address", {"type": "string", "format": "ipv6"}),
    ("ipaddress", "IPv4Network", {"type": "string"}),
    ("ipaddress", "IPv6Network", {"type": "string"}),
)
"""Classes that are converted from and to strings, by name: the author's module has imported them."""

UNWRITABLE: Final = (TypeError, ValueError, OverflowError, RecursionError)
"""The exceptions of msgspec for values without a JSON form: unknown classes, lone surrogates, recursion."""


def textual_schema(kind: type[Any]) -> dict[str, Any] | None:
    """The schema of a class that is written as a string, or None."""
    for module, name, schema in _TEXTUAL:
        if module in sys.modules and issubclass(kind, getattr(sys.modules[module], name)):
            return dict(schema)
    return None


def _hook(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if dump is not None and not isinstance(value, type):
        return dump(mode="json", by_alias=True)
    if textual_schema(cast("type[Any]", type(value))) is not None:
        return str(value)
    if isinstance(value, abc.Mapping):
        return dict(cast("abc.Mapping[Any, Any]", value))
    if isinstance(value, abc.Iterable):
        return list(cast("abc.Iterable[Any]", value))
    if isinstance(value, abc.Coroutine):
        raise TypeError(f"the call of {value.__qualname__} needs 'await'")
    raise TypeError(f"a value of type {type(value).__name__} has no JSON form")


encode = msgspec.json.Encoder(enc_hook=_hook).encode
"""Encode a return value as JSON. Raises TypeError naming a class without a JSON form."""


def readable(text: str) -> str:
    """``text`` with a question mark for every lone surrogate, which file names may contain and JSON may not."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def plain(value: Any) -> Any:
    """``value`` as plain JSON data."""
    return msgspec.json.decode(encode(value))
