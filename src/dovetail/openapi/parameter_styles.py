"""How values are written into a URL and into headers: all styles of OpenAPI, after RFC 6570. Nothing here does I/O.

A value never leaves its place. Everything but letters, digits and ``-._~`` is percent-encoded in URLs; a path in which
a segment would be ``.`` or ``..`` to anybody is refused, and so is a header with a line break.
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
"""Levels of members in a query parameter of the style ``deepObject``."""
ESCAPES_UNFOLDED: Final = 4
"""How often an escape within an escape is looked into."""


_RESERVED: Final = ":/?@!$'()*,;"
"""What ``allowReserved`` leaves as it is: all but what ends a value, or the query."""
_LISTS: Final = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")
_VARIABLE: Final = re.compile(r"\{([^{}]*)\}")


class BadValue(ValueError):
    """An argument that cannot be sent; ``reason`` says why, without the value."""

    def __init__(self, argument: str, reason: str) -> None:
        super().__init__(reason)
        self.argument = argument
        self.reason = reason


def text_of(value: Any) -> str:
    """A value as text: strings as they are, everything else as JSON has it."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def quoted(value: Any, safe: str = "") -> str:
    """``value`` as part of a URL."""
    try:
        return quote(text_of(value), safe=safe)
    except UnicodeEncodeError:
        raise ValueError("holds half a character") from None


# --- paths ----------------------------------------------------------------------------------------------------------


def expand(template: str, pieces: dict[str, str]) -> str:
    """The path with each variable replaced by what `path_piece` made for it.

    Raises:
        ValueError: it would lead out of where the template put it.
    """
    path = "".join(
        pieces[part] if index % 2 else quote(part, safe="/%:@!$&'()*+,;=~")
        for index, part in enumerate(_VARIABLE.split(template))
    )
    if any(_climbs(segment) for segment in path.split("/")):
        raise ValueError("must not be '.' or '..', nor hold one of them between slashes")
    return path


def _climbs(segment: str) -> bool:
    """Whether anybody who decodes, splits or normalizes ``segment`` could take a part of it for ``.`` or ``..``."""
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
    """``value`` in a path.

    Raises:
        ValueError: there is nothing of it, so that another path would be asked for.
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
    """The members of an object, ready to be written; None for anything else."""
    if not is_object(value):
        return None
    return [(quoted(key, safe), quoted(one, safe)) for key, one in value.items()]


# --- queries, cookies, headers --------------------------------------------------------------------------------------


def query_pairs(parameter: Parameter, value: Any) -> Iterator[str]:
    """``name=value`` as often as ``value`` needs it."""
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
    """``value`` as a header has it.

    Raises:
        ValueError: it would end the line.
    """
    if parameter.json:
        text = msgspec.json.encode(value).decode()
    elif is_object(value):
        joint = "=" if parameter.explode else ","
        text = ",".join(f"{key}{joint}{text_of(one)}" for key, one in value.items())
    else:
        text = ",".join(map(text_of, value)) if is_list(value) else text_of(value)
    if _CONTROLS.search(text):
        raise ValueError("must not hold line breaks or other control characters")
    return text.strip()


def cookies(parameter: Parameter, value: Any) -> str:
    """``name=value``, as a ``Cookie`` header has it; several are separated by semicolons."""
    return "; ".join(query_pairs(parameter, value))
