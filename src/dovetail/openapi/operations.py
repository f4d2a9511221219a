"""The operations of a description: parameters, bodies and responses."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, cast

from msgspec import Struct

from ..errors import RegistrationError
from ..server.signatures.validation_errors import NAME_SHOWN
from ..shapes import Object, is_list, is_object
from .description import Document

OPERATIONS: Final = 5_000
"""The most operations of one description."""
PARAMETERS: Final = 200
"""The most parameters of one operation."""


log = logging.getLogger("dovetail.openapi")

Place = Literal["path", "query", "header", "cookie"]

_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_STYLES: Final[dict[str, tuple[str, ...]]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
"""Styles by location, the default first."""
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_OURS: Final = frozenset({
    "accept", "content-type", "authorization", "host", "content-length", "transfer-encoding", "connection", "upgrade",
    "te", "trailer", "keep-alive", "expect", "cookie", "forwarded", "x-forwarded-host", "x-forwarded-for",
    "x-forwarded-proto", "x-forwarded-prefix", "x-original-url", "x-rewrite-url", "x-original-host",
    "x-http-method-override", "x-http-method", "x-method-override", "proxy-authorization", "proxy-connection",
})  # fmt: skip
"""Headers that arguments cannot set: those that OpenAPI reserves, and those for routing, authorization and framing."""


class Parameter(Struct, frozen=True, kw_only=True):
    """A parameter of the path, query, header or cookie."""

    name: str
    place: Place
    schema: Any
    required: bool = False
    style: str = "simple"
    explode: bool = False
    reserved: bool = False
    """Whether reserved characters of URLs are not encoded."""
    empty: bool = False
    """Whether an empty list is sent as an empty value."""
    json: bool = False
    """Whether the value is JSON text."""
    description: str = ""


class RequestBody(Struct, frozen=True, kw_only=True):
    """The body of a request."""

    media: str
    schema: Any
    required: bool
    encoding: Object


class Operation(Struct, frozen=True, kw_only=True):
    """One method of one path."""

    method: str
    path: str
    id: str
    summary: str
    description: str
    tags: tuple[str, ...]
    deprecated: bool
    parameters: tuple[Parameter, ...]
    body: RequestBody | None
    answers: tuple[Any, ...] | None
    """The schemas of successful responses; None if one is missing or not JSON."""

    @property
    def what(self) -> str:
        return f"{self.method} {self.path}"[:200]


def operations(document: Document) -> Iterator[Operation]:
    """Return all usable operations; log a warning for the others.

    Raises:
        RegistrationError: there are too many of them.
    """
    paths: Any = document.root.get("paths")
    count = 0
    for path, item in (paths if is_object(paths) else {}).items():
        members = document.follow(item)
        for method in _METHODS:
            found = members.get(method)
            if not is_object(found):
                continue
            count += 1
            if count > OPERATIONS:
                raise RegistrationError(f"the description has more than {OPERATIONS} operations")
            try:
                yield _operation(document, method.upper(), path, members, found)
            except RegistrationError as error:
                log.warning("%s %s is not registered: %s", method.upper(), path[:NAME_SHOWN], error.message)


def _operation(document: Document, method: str, path: str, item: Object, found: Object) -> Operation:
    if not path.startswith("/") or any(segment in (".", "..") for segment in path.split("/")):
        raise RegistrationError("its path is not below the base URL of the API")
    if any(character in path for character in "?#\\") or not path.isprintable():
        raise RegistrationError("its path contains invalid characters")
    own = _list(found.get("parameters"))
    return Operation(
        method=method,
        path=path,
        id=_text(found.get("operationId")),
        summary=_text(found.get("summary")) or _text(item.get("summary")),
        description=_text(found.get("description")) or _text(item.get("description")),
        tags=tuple(tag for tag in _list(found.get("tags")) if isinstance(tag, str)),
        deprecated=found.get("deprecated") is True,
        parameters=tuple(_parameters(document, path, [*_list(item.get("parameters")), *own])),
        body=_body(document, document.follow(found.get("requestBody"))),
        answers=_answers(document, found.get("responses")),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _list(value: Any) -> list[Any]:
    return value if is_list(value) else []


def _parameters(document: Document, path: str, nodes: list[Any]) -> Iterable[Parameter]:
    """Return the parameters of the path and of the operation; the latter override the former."""
    found: dict[tuple[str, str], Parameter] = {}
    for node in nodes[: PARAMETERS + 1]:
        parameter = _parameter(document, document.follow(node))
        if parameter is not None:
            found[parameter.place, parameter.name] = parameter
    if len(nodes) > PARAMETERS:
        raise RegistrationError(f"it has more than {PARAMETERS} parameters")
    declared = {name for place, name in found if place == "path"}
    wanted = {piece.partition("}")[0] for piece in path.split("{")[1:]}
    if declared != wanted:
        raise RegistrationError(
            f"the variables and the parameters of its path differ: {sorted(declared ^ wanted)[:5]}"
        )
    return found.values()


def _parameter(document: Document, node: Object) -> Parameter | None:
    name, place = node.get("name"), node.get("in")
    if not isinstance(name, str) or not name or place not in _STYLES:
        raise RegistrationError("it has a parameter without name or location")
    if place == "header" and name.lower() in _NOT_OURS:
        return None
    if place == "header" and _TOKEN.fullmatch(name) is None:
        raise RegistrationError(f"{name[:NAME_SHOWN]!r} is not a valid header name")
    style = node.get("style", _STYLES[place][0])
    if style not in _STYLES[place]:
        raise RegistrationError(f"the style {str(style)[:NAME_SHOWN]!r} is not supported in a {place}")
    content: Any = node.get("content")
    kind = next(iter(content), "") if is_object(content) else ""
    return Parameter(
        name=name,
        place=cast("Place", place),
        schema=document.follow(content[kind]).get("schema", {}) if kind else node.get("schema", {}),
        required=place == "path" or node.get("required") is True,
        style=cast("str", style),
        explode=node["explode"] is True if "explode" in node else style == "form",
        reserved=node.get("allowReserved") is True,
        empty=node.get("allowEmptyValue") is True,
        json=is_json(kind),
        description=_text(node.get("description")),
    )


def _body(document: Document, node: Object) -> RequestBody | None:
    content: Any = node.get("content")
    if not is_object(content) or not content:
        return None
    media = min(content, key=_rank)
    described = document.follow(content[media])
    encoding: Any = described.get("encoding")
    return RequestBody(
        media=media.partition(";")[0].strip().lower(),
        schema=described.get("schema", {}),
        required=node.get("required") is True,
        encoding=encoding if is_object(encoding) else {},
    )


def _rank(media: str) -> int:
    """Return the media types of the body, the preferred one first."""
    kind = media.partition(";")[0].strip().lower()
    kinds = (is_json(kind), kind == FORM, kind == MULTIPART, kind.startswith("text/"))
    return kinds.index(True) if True in kinds else len(kinds)


FORM: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"


def is_json(media: str) -> bool:
    """Return whether ``media`` is JSON, or a JSON format such as ``application/problem+json``."""
    kind = media.partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json") or kind == "text/json"


def _answers(document: Document, responses: Any) -> tuple[Any, ...] | None:
    found: list[Any] = []
    for status, node in (responses if is_object(responses) else {}).items():
        if not str(status).startswith("2"):
            continue
        content: Any = document.follow(node).get("content")
        media = next((kind for kind in content if is_json(kind)), None) if is_object(content) else None
        if media is None or len(content) > 1:
            return None
        schema = document.follow(content[media]).get("schema")
        if schema is None:
            return None
        found.append(schema)
    return tuple(found) or None
