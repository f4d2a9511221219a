"""Routing headers: HTTP headers that repeat parts of the body, so that proxies can route without parsing it.

Since 2026-07-28 every POST has headers for the version, the method, the name of the tool, prompt or resource,
and the arguments that the schema marks with ``x-mcp-header``. A server must not trust them: `check` and
`check_arguments` compare them with the body. A client creates them with `routing_headers` and
`argument_headers`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NoReturn

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ..errors import NAME_ECHO, RegistrationError, RemoteProtocolError
from ..json_schema.keywords import BY_NAME, MAX_SCHEMA_DEPTH, VALUES
from ..lazy_pattern import lazy_pattern
from ..model.meta import PROTOCOL_VERSION
from ..shapes import is_list, is_object
from .frames import UNREADABLE, Frame
from .methods import METHODS, Method

HEADS_KEPT: Final = 64
"""Header blocks of requests that are cached."""


VERSION_HEADER = "MCP-Protocol-Version"
METHOD_HEADER = "Mcp-Method"
NAME_HEADER = "Mcp-Name"
PARAM_PREFIX = "Mcp-Param-"
ANNOTATION = "x-mcp-header"

HeaderMap = Mapping[tuple[str, ...], str]
"""Path of an argument, outermost property first → name after ``Mcp-Param-``."""

_PARAM = b"mcp-param-"
_SENTINEL = lazy_pattern(r"=\?base64\?(.*)\?=", re.DOTALL)
_PLAIN = lazy_pattern(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")
_TOKEN = lazy_pattern(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_INTEGER = lazy_pattern(r"(-?[0-9]{1,20})(?:\.0{1,20})?")
_TYPES = ("string", "integer", "boolean")
LARGEST_INTEGER = (1 << 53) - 1


class RoutingHeaders(Struct, eq=False):
    """The routing headers of one request, without surrounding white space, not decoded."""

    version: str | None = None
    method: str | None = None
    name: str | None = None
    params: dict[str, str] = {}
    """Name after ``Mcp-Param-`` in lower case → value."""
    duplicated: frozenset[str] = frozenset()
    """Routing headers that occurred more than once, in lower case."""


def read(raw: Iterable[tuple[bytes, bytes]]) -> RoutingHeaders:
    """Select the routing headers from an ASGI header list, whose names are in lower case."""
    found = RoutingHeaders()
    for key, value in raw:
        if key[:4] != b"mcp-":
            continue
        text = value.decode("latin-1").strip(" \t")
        if key == b"mcp-method":
            before, found.method = found.method, text
        elif key == b"mcp-name":
            before, found.name = found.name, text
        elif key == b"mcp-protocol-version":
            before = found.version  # joined as HTTP joins repeated headers
            found.version = text if before is None else f"{before[:NAME_ECHO]}, {text}"
        elif key[:10] == _PARAM:
            name = key[10:].decode("latin-1").lower()
            before, found.params[name] = found.params.get(name), text
        else:
            continue
        if before is not None:
            found.duplicated |= {key.decode("latin-1").lower()}
    return found


# --- comparison with the body -------------------------------------------------------------------------------


class HeaderValues(Struct, rename="camel"):
    """The params that headers repeat, whatever else the params contain."""

    name: Any = UNSET
    uri: Any = UNSET
    task_id: Any = UNSET
    arguments: Raw | UnsetType = UNSET
    meta: Any = msgspec.field(name="_meta", default=UNSET)


_decode_repeated = msgspec.json.Decoder(HeaderValues).decode
_MEMBERS = {"name": "name", "uri": "uri", "taskId": "task_id"}


def headers_match(headers: RoutingHeaders, version: str, row: Method, params: Any) -> bool:
    """Whether version, method and name equal those of a decoded body without further decoding.

    This is the fast path. If they differ, which includes encoded names and names under an alias, `check`
    determines what is wrong, if anything.
    """
    if headers.duplicated or headers.version != version or headers.method != row.name:
        return False
    if row.name_header is None:
        return True
    name = headers.name
    return (
        name is not None and name == getattr(params, _MEMBERS[row.name_header]) and not name.startswith("=?")
    )


def check(headers: RoutingHeaders, frame: Frame) -> None:
    """Compare version, method and name with the message; `check_arguments` compares the arguments.

    Raises:
        RemoteProtocolError: (``header_mismatch``) a header is missing, malformed or differs.
    """
    check_duplicates(headers)
    params = peek(frame)
    meta: Any = params.meta
    if headers.version is None:
        _refuse(VERSION_HEADER, "is missing")
    if is_object(meta):
        _compare(VERSION_HEADER, headers.version, meta.get(PROTOCOL_VERSION), "version")
    if headers.method is None:
        _refuse(METHOD_HEADER, "is missing")
    _compare(METHOD_HEADER, headers.method, frame.method, "method")
    row = METHODS.get(frame.method)
    if row is not None and row.name_header is not None:
        _check_name(headers.name, getattr(params, _MEMBERS[row.name_header]))


def peek(frame: Frame) -> HeaderValues:
    """Return the values in undecoded params that the headers repeat."""
    try:
        return HeaderValues() if frame.params is UNSET else _decode_repeated(frame.params)
    except UNREADABLE:
        return HeaderValues()  # the params are refused later


def _check_name(header: str | None, name: Any) -> None:
    if not isinstance(name, str):
        return  # a name of the wrong type is refused later
    if header is None:
        _refuse(NAME_HEADER, "is missing")
    _compare(NAME_HEADER, decode_value(header, NAME_HEADER), name, "name")


def check_arguments(headers: RoutingHeaders, arguments: Any, header_map: HeaderMap) -> None:
    """Compare the annotated arguments of a call with their headers. ``arguments`` may still be raw.

    Raises:
        RemoteProtocolError: (``header_mismatch``) a header is missing, malformed or differs.
    """
    check_duplicates(headers)
    if not header_map:
        return
    if isinstance(arguments, Raw | bytes):
        try:
            arguments = msgspec.json.decode(arguments)
        except UNREADABLE:
            return  # refused later
    for path, name in header_map.items():
        _check_argument(headers.params.get(name.lower()), _at(arguments, path), PARAM_PREFIX + name)


def _check_argument(header: str | None, value: Any, name: str) -> None:
    if value is None:
        if header is not None:
            _refuse(name, "is set, but its argument is missing in the body")
        return
    if not isinstance(value, str | int | float):
        return  # not of an annotated type: the schema check refuses it
    if header is None:
        _refuse(name, "is missing")
    if not _same(decode_value(header, name), value):
        _refuse(name, "differs from the argument in the body")


def _same(text: str, value: str | int | float) -> bool:
    if isinstance(value, str):
        return text == value
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    number = _INTEGER.fullmatch(text)  # 42.0 is 42
    return number is not None and int(number[1]) == value


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not is_object(value):
            return None
        value = value.get(name)
    return value


def _compare(header: str, said: str, meant: Any, what: str) -> None:
    """The error names both values, because its reader may see neither the header nor the body."""
    if said != meant:
        both = f"{said[:NAME_ECHO]!r}, not {str(meant)[:NAME_ECHO]!r}"
        _refuse(header, f"differs from the {what} in the body: {both}")


def check_duplicates(headers: RoutingHeaders | None) -> None:
    """Raise RemoteProtocolError (``header_mismatch``) if a header occurred twice."""
    if headers is not None and headers.duplicated:
        raise duplicate_error(headers)


def duplicate_error(headers: RoutingHeaders) -> RemoteProtocolError:
    """Return the error for a repeated header. For versions it names both values."""
    name = min(headers.duplicated)
    values = f": {headers.version}" if name == VERSION_HEADER.lower() else ""
    text = f"the header {name} occurs more than once{values[: 2 * NAME_ECHO]}"
    return RemoteProtocolError("header_mismatch", text, data={"header": name})


def _refuse(header: str, reason: str) -> NoReturn:
    raise RemoteProtocolError("header_mismatch", f"the header {header} {reason}", data={"header": header})


# --- values -------------------------------------------------------------------------------------------------


def encode_value(value: str) -> str:
    """Encode a value for ``Mcp-Name`` or ``Mcp-Param-*``: unchanged if allowed, else in base64."""
    if not value or (_PLAIN.fullmatch(value) and not _SENTINEL.fullmatch(value)):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def decode_value(value: str, header: str = NAME_HEADER) -> str:
    """Decode a value of ``Mcp-Name`` or ``Mcp-Param-*``.

    Raises:
        RemoteProtocolError: (``header_mismatch``) it is invalid base64, or has characters that headers do not
            allow.
    """
    sentinel = _SENTINEL.fullmatch(value)
    if sentinel is None:
        if value and not _PLAIN.fullmatch(value):
            _refuse(header, "contains characters that must be encoded in base64")
        return value
    try:
        return base64.b64decode(sentinel[1], validate=True).decode()
    except (binascii.Error, ValueError):
        _refuse(header, "is not valid base64 of UTF-8")


# --- schemas ------------------------------------------------------------------------------------------------


def header_map(input_schema: Mapping[str, Any]) -> dict[tuple[str, ...], str]:
    """Map the annotated arguments of a tool to their headers.

    Raises:
        RegistrationError: an annotation is invalid. A server refuses to register the tool; an HTTP client
            leaves it out of its list.
    """
    found: dict[tuple[str, ...], str] = {}
    if ANNOTATION in input_schema:
        raise RegistrationError(f"{ANNOTATION} must be set on a property, not on the whole schema")
    _collect(input_schema, (), found)
    names = [name.lower() for name in found.values()]
    if len(set(names)) != len(names):
        raise RegistrationError(f"two properties have the same {ANNOTATION}")
    return found


def _collect(schema: Mapping[str, Any], path: tuple[str, ...], found: dict[tuple[str, ...], str]) -> None:
    if len(path) > MAX_SCHEMA_DEPTH:
        raise RegistrationError("the input schema is nested too deeply")
    for keyword, value in schema.items():
        if keyword == "properties" and is_object(value):
            for name, property in value.items():
                if is_object(property):
                    _collect_property(property, (*path, name), found)
        elif keyword != ANNOTATION:
            _forbid(keyword, value, 0)


def _collect_property(
    schema: dict[str, Any], path: tuple[str, ...], found: dict[tuple[str, ...], str]
) -> None:
    if ANNOTATION in schema:
        name: Any = schema[ANNOTATION]
        where = ".".join(path)
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise RegistrationError(f"the {ANNOTATION} of {where!r} is not a valid header name")
        if schema.get("type") not in _TYPES:
            raise RegistrationError(f"{where!r} has an {ANNOTATION} but is not a string, integer or boolean")
        found[path] = name
    _collect(schema, path, found)


def _forbid(keyword: str, value: Any, depth: int) -> None:
    """Refuse an annotation on an argument that has no unique path."""
    if keyword in VALUES:
        return
    if depth > MAX_SCHEMA_DEPTH:
        raise RegistrationError("the input schema is nested too deeply")
    if is_list(value):
        for item in value:
            _forbid("", item, depth + 1)
    elif is_object(value):
        named = keyword in BY_NAME
        if not named and ANNOTATION in value:
            raise RegistrationError(f"{ANNOTATION} is only allowed on properties of plain objects")
        for name, item in value.items():
            _forbid("" if named else name, item, depth + 1)


# --- creation -----------------------------------------------------------------------------------------------


def routing_headers(version: str, method: str, name: str | None = None) -> Mapping[str, str]:
    """Return the read-only headers of a request; ``name`` is the value of `Method.name_header`."""
    headers = {VERSION_HEADER: version, METHOD_HEADER: method}
    if name is not None:
        headers[NAME_HEADER] = encode_value(name)
    return headers


cached_routing_headers = lru_cache(HEADS_KEPT)(routing_headers)
"""The same, cached; for names of at most `HEADER_NAME_KEPT` characters."""


def argument_headers(arguments: Any, header_map: HeaderMap) -> dict[str, str]:
    """Return the headers for the annotated arguments of a call; missing and null arguments have no header."""
    if isinstance(arguments, Raw | bytes):
        arguments = msgspec.json.decode(arguments)
    headers: dict[str, str] = {}
    for path, name in header_map.items():
        text = _as_text(_at(arguments, path))
        if text is not None:
            headers[PARAM_PREFIX + name] = encode_value(text)
    return headers


def _as_text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int) and abs(value) <= LARGEST_INTEGER else None
