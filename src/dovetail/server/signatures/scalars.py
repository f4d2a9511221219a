"""The types that need no taking apart: what JSON Schema calls them, and which collections are alike."""

from __future__ import annotations

import collections.abc as abc
import datetime
import decimal
import ipaddress
import pathlib
import uuid
from typing import Any, Final

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

ARRAYS: Final = frozenset(
    (
        list,
        set,
        frozenset,
        abc.Sequence,
        abc.MutableSequence,
        abc.Collection,
        abc.Iterable,
        abc.Set,
        abc.MutableSet,
    )
)
MAPPINGS: Final = frozenset((dict, abc.Mapping, abc.MutableMapping))
ABSTRACT: Final[dict[Any, Any]] = {
    abc.Sequence: list,
    abc.MutableSequence: list,
    abc.Collection: list,
    abc.Iterable: list,
    abc.Set: set,
    abc.MutableSet: set,
    abc.Mapping: dict,
    abc.MutableMapping: dict,
}
UNIQUE: Final = frozenset((set, frozenset))

_TEXTUAL: Final[tuple[tuple[type[Any], dict[str, Any]], ...]] = (
    (pathlib.PurePath, {"type": "string", "format": "path"}),
    (ipaddress.IPv4Address, {"type": "string", "format": "ipv4"}),
    (ipaddress.IPv6Address, {"type": "string", "format": "ipv6"}),
    (ipaddress.IPv4Network, {"type": "string"}),
    (ipaddress.IPv6Network, {"type": "string"}),
)
TEXTUAL: Final = tuple(kind for kind, _ in _TEXTUAL)
"""Classes that read and write themselves as a string."""


def textual_format(kind: type[Any]) -> dict[str, Any] | None:
    """The schema of a class that is written as a string, or None."""
    return next((dict(schema) for base, schema in _TEXTUAL if issubclass(kind, base)), None)
