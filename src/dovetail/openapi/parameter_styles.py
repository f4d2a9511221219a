"""Write values into URLs and headers, in all styles of OpenAPI (RFC 6570). This module does no I/O.

A value cannot change other parts of the request. In URLs, all characters except letters, digits and ``-._~`` are
percent-encoded. A path with a segment ``.`` or ``..``, and a header with a line break, are refused.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote, unquote

import msgspec

from ..shapes import Object, is_list, is_object
from .operations import Parameter

MEMBER_DEPTH: Final = 8
"""The deepest nesting of a query parameter of the style ``deepObject``."""
ESCAPES_UNFOLDED: Final = 4
"""How often nested percent-encoding is decoded for the check."""


_RESERVED: Final = ":/?@!$'()*,;"
"""The characters that ``allowReserved`` does not encode."""
_LISTS: Final = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")
_VARIABLE: Final = re.compile(r"\{([^{}]*)\}")


class BadValue(ValueError):
    """An argument that cannot be sent; ``reason`` does not contain the value."""

    def __init__(self, argument: str, reason: str) -> None:
        super().__init__(reason)
        self.argument = argument
        self.reason = reason


def text_of(value: Any) -> str:
    """Return a value as text: strings unchanged, other values as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def quoted(value: Any, safe: str = "") -> str:
    """Return ``value`` percent-encoded."""
    try:
        return quote(text_of(value), safe=safe)
    except UnicodeEncodeError:
        raise ValueError("contains an unpaired surrogate") from None


# --- paths ----------------------------------------------------------------------------------------------------------


def expand(template: str, pieces: dict[str, str]) -> str:
    """Return the path with the values of `path_piece`.

    Raises:
        ValueError: the path would lead outside of the template.
    """
    path = "".join(
        pieces[part] if index % 2 else quote(part, safe="/%:@!$&'()*+,;=~")
        for index, part in enumerate(_VARIABLE.split(template))
    )
    if any(_climbs(segment) for segment in path.split("/")):
        raise ValueError("must not be or contain a path segment '.' or '..'")
    return path


def _climbs(segment: str) -> bool:
    """Return whether decoding or normalization of ``segment`` could produce ``.`` or ``..``."""
    for _ in range(ESCAPES_UNFOLDED):
        decoded = unquote(segment)
        plain = unicodedata.normalize("NFKC", decoded)
        if any(part.partition(";")[0].strip() in (".", "..") for part in re.split(r"[/\\]", plain)):
            return True
        if decoded == segment:
            return False
        segment = decoded
    return "%" in segment


def path_piece(parameter: Parameter, value: Any) -> str:
    """Return ``value`` for a path.

    Raises:
        ValueError: it is empty, which would request another path.
    """
    name, explode = quoted(parameter.name), parameter.explode
    if value is None or value == "" or value == [] or value == {}:
        raise ValueError("must not be empty")
    if parameter.json:
        return quoted(msgspec.json.encode(value).decode())
    pairs = _members(value)
    if parameter.style == "matrix":
        return _matrix(name, value, pairs, explode=explode)
    label = parameter.style == "label"
    separator = "." if label and explode else ","
    if pairs is not None:
        words = [f"{key}={one}" if explode else f"{key},{one}" for key, one in pairs]
    else:
        words = [quoted(one) for one in value] if is_list(value) else [quoted(value)]
    return ("." if label else "") + separator.join(words)


def _matrix(name: str, value: Any, pairs: list[tuple[str, str]] | None, *, explode: bool) -> str:
    if pairs is not None:
        if explode:
            return "".join(f";{key}={one}" for key, one in pairs)
        return f";{name}=" + ",".join(f"{key},{one}" for key, one in pairs)
    if is_list(value):
        words = [quoted(one) for one in value]
        return "".join(f";{name}={one}" for one in words) if explode else f";{name}=" + ",".join(words)
    return f";{name}={quoted(value)}"


def _members(value: Any, safe: str = "") -> list[tuple[str, str]] | None:
    """Return the encoded members of an object; None for other values."""
    if not is_object(value):
        return None
    return [(quoted(key, safe), quoted(one, safe)) for key, one in value.items()]


# --- queries, cookies, headers --------------------------------------------------------------------------------------


def query_pairs(parameter: Parameter, value: Any) -> Iterator[str]:
    """Return the ``name=value`` pairs of ``value``."""
    name, safe = quoted(parameter.name), _RESERVED if parameter.reserved else ""
    if parameter.json:
        yield f"{name}={quoted(msgspec.json.encode(value).decode(), safe)}"
    elif parameter.style == "deepObject" and is_object(value):
        for keys, one in _leaves(value, ()):
            inner = "".join(f"%5B{quoted(key)}%5D" for key in keys)
            yield f"{name}{inner}={quoted(one, safe)}"
    elif is_object(value):
        pairs = _members(value, safe) or []
        if parameter.explode:
            yield from (f"{key}={one}" for key, one in pairs)
        else:
            yield f"{name}=" + _LISTS.get(parameter.style, ",").join(word for pair in pairs for word in pair)
    elif is_list(value):
        words = [quoted(one, safe.replace(",", "")) for one in value]
        if not words:
            yield from (f"{name}=",) if parameter.empty else ()
        elif parameter.explode or parameter.style == "deepObject":
            yield from (f"{name}={one}" for one in words)
        else:
            yield f"{name}=" + _LISTS[parameter.style].join(words)
    else:
        yield f"{name}={quoted(value, safe)}"


def _leaves(value: Object, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, one in value.items():
        keys = (*above, key)
        if is_object(one) and one and len(keys) < MEMBER_DEPTH:
            yield from _leaves(one, keys)
        elif is_list(one) and not any(isinstance(each, dict | list) for each in one):
            yield from ((keys, each) for each in one)
        else:
            yield keys, one


def header_value(parameter: Parameter, value: Any) -> str:
    """Return ``value`` for a header.

    Raises:
        ValueError: it contains a line break.
    """
    if parameter.json:
        text = msgspec.json.encode(value).decode()
    elif is_object(value):
        joint = "=" if parameter.explode else ","
        text = ",".join(f"{key}{joint}{text_of(one)}" for key, one in value.items())
    else:
        text = ",".join(map(text_of, value)) if is_list(value) else text_of(value)
    if _CONTROLS.search(text):
        raise ValueError("must not contain line breaks or other control characters")
    return text.strip()


def cookies(parameter: Parameter, value: Any) -> str:
    """Return ``name=value`` for a ``Cookie`` header, separated by semicolons."""
    return "; ".join(query_pairs(parameter, value))
