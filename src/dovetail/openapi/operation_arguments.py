"""The arguments of a tool, and the HTTP request from them.

Parameters are arguments with the same names. Members of a JSON or form body are arguments, too; if names collide or the
body is not a plain object, it is one argument ``body``. This module does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from msgspec import Struct

from ..shapes import Object, is_list, is_object
from .description import Document
from .openapi_schemas import OpenApiSchemas
from .operations import FORM, MULTIPART, Operation, Parameter, RequestBody, is_json
from .parameter_styles import BadValue, cookies, expand, header_value, path_piece, query_pairs
from .request_bodies import FILE, BadMember, EncodedBody, is_file, is_text, write

NAME_LENGTH: Final = 64
"""The longest name of a tool or argument; some models have this limit."""
FLAT_DEPTH: Final = 8
"""The deepest ``allOf`` in which members of a body are found."""


_PLACES: Final = ("path", "query", "header", "cookie")
_NOT_PLAIN: Final = frozenset({"oneOf", "anyOf", "not", "if", "patternProperties", "unevaluatedProperties"})
_ACCEPT: Final = "application/json, */*;q=0.5"


class ApiRequest(Struct, frozen=True):
    """A request to the API, relative to the base URL."""

    method: str
    target: str
    """Path and query."""
    headers: dict[str, str]
    body: bytes | None = None


class _BodyMembers(Struct):
    """An object whose members become arguments."""

    properties: Object
    required: list[str]
    open: Any = False
    """The schema of additional members; False for none."""


class RequestPlan:
    """Builds the request of one operation from arguments. ``schema`` is the input schema of the tool."""

    def __init__(self, operation: Operation, document: Document, schemas: OpenApiSchemas) -> None:
        self._operation = operation
        taken: set[str] = set()
        ordered = sorted(operation.parameters, key=lambda one: _PLACES.index(one.place))
        self.parameters: dict[str, Parameter] = {}
        for one in ordered:
            known = legal(one.name) in taken
            self.parameters[unique(f"{one.place}_{one.name}" if known else one.name, taken)] = one
        self._members: dict[str, str] = {}
        """Arguments that are members of the body."""
        self._body: str | None = None
        """The argument with the whole body."""
        self._files: frozenset[str] = frozenset()
        self._open = False
        properties: Object = {name: one.schema for name, one in self.parameters.items()}
        required = [name for name, one in self.parameters.items() if one.required]
        additional: Any = False
        if operation.body is not None:
            shown, wanted, additional = self._plan_body(operation.body, document, taken)
            properties |= shown
            required += wanted
        self.schema = self._shown(schemas, properties, required, additional)

    def _plan_body(
        self, body: RequestBody, document: Document, taken: set[str]
    ) -> tuple[Object, list[str], Any]:
        """Return properties, required names, and the schema of additional members."""
        fields = body.media in (FORM, MULTIPART)
        members = _flat(document, body.schema) if fields or is_json(body.media) else None
        if body.media == MULTIPART:
            found: Object = members.properties if members else {}
            self._files = frozenset(name for name in found if _holds_file(document, found[name]))
        if members is not None and not taken & {legal(name) for name in members.properties}:
            self._members = {unique(name, taken): name for name in members.properties}
            self._open = members.open is not False
            shown = {
                one: self._field(document, members.properties[name], name)
                for one, name in self._members.items()
            }
            wanted = [one for one, name in self._members.items() if name in members.required]
            return shown, wanted if body.required else [], members.open
        self._body = unique("body", taken)
        schema = body.schema
        if not fields and not is_json(body.media):
            schema = {"type": "string"} if is_text(body.media) else FILE
        return {self._body: schema}, [self._body] if body.required else [], False

    def _field(self, document: Document, schema: Any, name: str) -> Any:
        if name not in self._files:
            return schema
        return {"type": "array", "items": FILE} if document.follow(schema).get("type") == "array" else FILE

    def _shown(
        self, schemas: OpenApiSchemas, properties: Object, required: list[str], additional: Any
    ) -> Object:
        whole = {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": additional,
        }
        made = schemas.closed(whole)
        if "type" not in made:  # too large for the schema
            anything: Object = dict.fromkeys(properties, True)
            made = schemas.closed({**whole, "properties": anything, "additionalProperties": True})
        for name, parameter in self.parameters.items():
            own: Any = made["properties"].get(name)
            if parameter.description and is_object(own):
                made["properties"][name] = {**own, "description": parameter.description}
        return made

    # --- requests -------------------------------------------------------------------------------------------------

    def request(self, values: Mapping[str, Any]) -> ApiRequest:
        """Return the request for valid arguments.

        Raises:
            BadValue: one of them cannot be sent.
        """
        pieces: dict[str, str] = {}
        query: list[str] = []
        headers = {"Accept": _ACCEPT}
        jar: list[str] = []
        for name, parameter in self.parameters.items():
            value = values.get(name)
            if value is None and parameter.place != "path":
                continue
            try:
                match parameter.place:
                    case "path":
                        pieces[parameter.name] = path_piece(parameter, value)
                    case "query":
                        query += query_pairs(parameter, value)
                    case "header":
                        headers[parameter.name] = header_value(parameter, value)
                    case "cookie":
                        jar.append(cookies(parameter, value))
            except (ValueError, RecursionError) as error:
                raise BadValue(name, str(error)) from None
        if jar := [one for one in jar if one]:
            headers["Cookie"] = "; ".join(jar)
        sent = self._written(values)
        if sent is not None:
            headers["Content-Type"] = sent.media
        target = "?".join(filter(None, (self._path(pieces), "&".join(query))))
        return ApiRequest(self._operation.method, target, headers, None if sent is None else sent.data)

    def _path(self, pieces: dict[str, str]) -> str:
        try:
            return expand(self._operation.path, pieces)
        except ValueError as error:
            names = [name for name, one in self.parameters.items() if one.place == "path"]
            raise BadValue(", ".join(names), str(error)) from None

    def _written(self, values: Mapping[str, Any]) -> EncodedBody | None:
        body = self._operation.body
        if body is None:
            return None
        if self._body is not None:
            if values.get(self._body) is None and not (body.required and is_json(body.media)):
                return None
            value, argument = values.get(self._body), self._body
        else:
            value = {own: values[name] for name, own in self._members.items() if name in values}
            if self._open:
                known = {*self.parameters, *self._members}
                value |= {name: one for name, one in values.items() if name not in known}
            if not is_json(body.media):
                value = {name: one for name, one in value.items() if one is not None}
            if not value and not body.required:
                return None
            argument = ", ".join(self._members)[:NAME_LENGTH]
        try:
            return write(body, value, self._files)
        except BadMember as error:
            named = {own: name for name, own in self._members.items()}
            member = named.get(error.member, error.member)
            name = member if self._body is None else f"{self._body}.{error.member}"
            raise BadValue(name[:NAME_LENGTH], str(error)) from None
        except (ValueError, RecursionError) as error:
            raise BadValue(argument, str(error)) from None


def legal(name: str) -> str:
    """Return ``name`` with only the characters that all clients and models accept."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_")[:NAME_LENGTH] or "value"


def unique(name: str, taken: set[str]) -> str:
    """Return a valid name that is not ``taken``, and add it to ``taken``."""
    words = legal(name)
    found, count = words, 1
    while found in taken:
        count += 1
        found = f"{words[: NAME_LENGTH - 6]}_{count}"
    taken.add(found)
    return found


def _holds_file(document: Document, schema: Any) -> bool:
    node = document.follow(schema)
    alternatives: Collection[Any] = [node.get("items"), *_list(node.get("anyOf")), *_list(node.get("oneOf"))]
    inner = [document.follow(one) for one in alternatives if is_object(one)]
    return is_file(node) or any(is_file(one) or is_file(document.follow(one.get("items"))) for one in inner)


def _list(value: Any) -> list[Any]:
    return value if is_list(value) else []


def _flat(document: Document, schema: Any, depth: int = 0) -> _BodyMembers | None:
    """Return the members of a plain object, including those in ``allOf``; None for other schemas."""
    node = document.follow(schema)
    if depth > FLAT_DEPTH or _NOT_PLAIN & node.keys() or node.get("nullable") is True:
        return None
    if node.get("type", "object") not in ("object", ["object"]):
        return None
    properties: Any = node.get("properties", {})
    required: Any = node.get("required", [])
    if not is_object(properties):
        return None
    other: Any = node.get("additionalProperties", False)
    found = _BodyMembers(
        {
            name: one
            for name, one in properties.items()
            if not (is_object(one) and one.get("readOnly") is True)
        },
        [name for name in _list(required) if isinstance(name, str)],
        other if is_object(other) or other is True else False,
    )
    for part in _list(node.get("allOf")):
        inner = _flat(document, part, depth + 1)
        if inner is None or any(
            found.properties.get(name, one) != one for name, one in inner.properties.items()
        ):
            return None
        found = _BodyMembers(
            found.properties | inner.properties,
            found.required + inner.required,
            (found.open is not False or inner.open is not False) and (found.open or inner.open),
        )
    return found if found.properties or depth else None
