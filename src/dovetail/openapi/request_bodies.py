"""Write request bodies: JSON, forms, multipart forms, text and bytes. This module does no I/O.

A file is an argument that is base64, or an object: ``{"text": …}`` or ``{"data": base64}``, with a ``filename`` and a
``contentType``.
"""

from __future__ import annotations

import binascii
import secrets
from base64 import b64decode
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import msgspec

from ..model.content import is_media_type
from ..shapes import Object, is_list, is_object
from .operations import FORM, MULTIPART, Parameter, RequestBody, is_json
from .parameter_styles import query_pairs, text_of

_BINARY: Final = "application/octet-stream"

FILE: Final[Object] = {
    "description": "A file: base64, or an object with its text or its data.",
    "anyOf": [
        {"type": "string", "contentEncoding": "base64"},
        {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "data": {"type": "string", "contentEncoding": "base64"},
                "filename": {"type": "string"},
                "contentType": {"type": "string"},
            },
            "additionalProperties": False,
        },
    ],
}
"""The schema of an argument for a file."""


class EncodedBody(NamedTuple):
    """A body and its media type."""

    data: bytes
    media: str


class BadMember(ValueError):
    """A member of a form that cannot be encoded."""

    def __init__(self, member: str, why: str) -> None:
        super().__init__(why)
        self.member = member


class _File(NamedTuple):
    data: bytes
    name: str | None
    media: str | None


def is_file(schema: Object) -> bool:
    """Return whether the value of ``schema`` is bytes: ``format: binary`` of 3.0, ``contentMediaType`` alone of 3.1."""
    media = schema.get("contentMediaType")
    bare = (
        isinstance(media, str)
        and "contentEncoding" not in schema
        and not is_json(media)
        and not is_text(media)
    )
    return bare or schema.get("format") == "binary"


def is_text(media: str) -> bool:
    """Return whether a body of this media type is given as text."""
    return media.startswith("text/") or media.endswith(
        ("/xml", "+xml", "/yaml", "+yaml", "/x-ndjson", "/graphql")
    )


def write(body: RequestBody, value: Any, files: frozenset[str]) -> EncodedBody:
    """Encode ``value`` for ``body``; ``files`` are the members that are bytes.

    Raises:
        BadMember: a member cannot be encoded.
        ValueError: the value cannot be encoded.
    """
    if is_json(body.media):
        return EncodedBody(msgspec.json.encode(value), body.media)
    if body.media in (FORM, MULTIPART):
        if not is_object(value):
            raise ValueError("must be an object")
        return _form(body, value) if body.media == FORM else _multipart(body, value, files)
    if is_text(body.media):
        return EncodedBody(_bytes(text_of(value)), f"{body.media}; charset=utf-8")
    if "*" in body.media:
        body = msgspec.structs.replace(body, media=_BINARY)
    file = _file(value)
    return EncodedBody(file.data, file.media or body.media)


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError("contains an unpaired surrogate") from None


def _file(value: Any) -> _File:
    if isinstance(value, str):
        return _File(_decoded(value), None, None)
    if not is_object(value) or ("text" in value) == ("data" in value):
        raise ValueError("must be base64, or an object with either 'text' or 'data'")
    data = _bytes(str(value["text"])) if "text" in value else _decoded(str(value["data"]))
    media = value.get("contentType")
    if media is not None and not (isinstance(media, str) and is_media_type(media)):
        raise ValueError("has an invalid contentType")
    name = value.get("filename")
    return _File(data, None if name is None else str(name), media)


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("must be base64") from None


def _encoding(body: RequestBody, name: str) -> Object:
    found = body.encoding.get(name)
    return found if is_object(found) else {}


@contextmanager
def _blaming(member: str) -> Generator[None]:
    try:
        yield
    except (ValueError, RecursionError) as error:
        raise BadMember(member, str(error)) from None


def _form(body: RequestBody, value: Object) -> EncodedBody:
    pairs: list[str] = []
    for name, one in value.items():
        how = _encoding(body, name)
        style = how.get("style", "form")
        nested = is_object(one) and "style" not in how
        parameter = Parameter(
            name=name,
            place="query",
            schema={},
            style=style if style in ("spaceDelimited", "pipeDelimited", "deepObject") else "form",
            explode=how.get("explode", style == "form") is True,
            json=nested or is_json(str(how.get("contentType", ""))),
        )
        with _blaming(name):
            pairs += query_pairs(parameter, one)
    return EncodedBody("&".join(pairs).replace("%20", "+").encode(), FORM)


def _multipart(body: RequestBody, value: Object, files: frozenset[str]) -> EncodedBody:
    boundary = secrets.token_hex(16)
    written = bytearray()
    for name, one in value.items():
        for part in one if is_list(one) else [one]:
            with _blaming(name):
                head, data = _part(body, name, part, file=name in files)
            written += f"--{boundary}\r\n{head}\r\n\r\n".encode() + data + b"\r\n"
    written += f"--{boundary}--\r\n".encode()
    return EncodedBody(bytes(written), f"{MULTIPART}; boundary={boundary}")


def _part(body: RequestBody, name: str, value: Any, *, file: bool) -> tuple[str, bytes]:
    told = str(_encoding(body, name).get("contentType", "")).partition(",")[0].strip()
    media = told if is_media_type(told) else ""
    head = f'Content-Disposition: form-data; name="{_escaped(name)}"'
    if file:
        found = _file(value)
        head += f'; filename="{_escaped(found.name or name)}"'
        return f"{head}\r\nContent-Type: {found.media or media or _BINARY}", found.data
    if isinstance(value, dict | list) or is_json(media):
        return f"{head}\r\nContent-Type: {media or 'application/json'}", msgspec.json.encode(value)
    return f"{head}\r\nContent-Type: {media}" if media else head, _bytes(text_of(value))


def _escaped(name: str) -> str:
    """HTML, multipart/form-data encoding algorithm: quotes and line breaks are percent-encoded."""
    _bytes(name)
    return "".join(
        f"%{ord(sign):02X}" if sign in '"\\' or sign < " " or sign == "\x7f" else sign for sign in name
    )
