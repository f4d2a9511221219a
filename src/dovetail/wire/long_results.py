"""Results with long strings in them, written a little at a time.

An encoder writes a whole value in one go, some milliseconds for each mebibyte, and everybody waits for it. So long
strings are set aside; the rest is written with marks in their places, as any result is, and they are written piece by
piece where the marks stand. What is large without a long string in it, a list of a million numbers say, is written at
once as before. Where an answer can be sent in pieces they are not put together: a fresh block of mebibytes costs more
than what is written into it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Generator, Iterator
from io import BytesIO
from typing import Any, cast

import msgspec
from msgspec import Struct

from ..errors import LocalProtocolError
from ..settings import LARGE_ANSWER, LONG_DEPTH, LONG_MEMBERS, LONG_PIECE
from .frames import encode


class Pieces:
    """A large answer that nobody has put together. It can be read once, and is let go of meanwhile."""

    def __init__(self, parts: list[bytes]) -> None:
        self._parts = parts
        self._size = sum(map(len, parts))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[bytes]:
        self._parts.reverse()
        while self._parts:
            yield self._parts.pop()


Body = bytes | Pieces
"""An answer as it is to be sent."""


def pieces_of(body: Body) -> Iterator[bytes]:
    """``body``, a little at a time."""
    if isinstance(body, Pieces):
        return iter(body)
    return (body[begin : begin + LONG_PIECE] for begin in range(0, len(body), LONG_PIECE))


def whole(body: Body) -> bytes:
    """``body`` in one go."""
    return b"".join(body) if isinstance(body, Pieces) else body


class LongResult:
    """A result whose long strings stand apart. ``write`` writes any result; without a ``size`` this one is like any."""

    def __init__(self, result: Any, write: Callable[[Any], bytes]) -> None:
        self._texts: list[str] = []
        self._token = ""
        rest = self._apart(result, LONG_DEPTH)
        parts = re.split(rb'"%b-(\d+)"' % self._token.encode(), write(rest)) if self._texts else [b""]
        if any(self._token.encode() in part for part in parts[::2]):
            parts = [b""]  # a mark became part of something else, which has to be written in one go
        self._first, self._rest = parts[0], parts[2::2]
        self._used = [self._texts[int(number)] for number in parts[1::2]]
        self.size = sum(map(len, self._used))
        """Bytes that it has at least."""

    def written(self) -> Generator[None, None, bytes]:
        """The whole answer, a step for each piece.

        Raises:
            LocalProtocolError: a string cannot be written as JSON.
        """
        out = BytesIO()
        for part in self._parts():
            out.write(part)
            yield
        return out.getvalue()  # what was written to, not a copy

    def pieces(self) -> Generator[None, None, Pieces]:
        """The same, not put together."""
        parts: list[bytes] = []
        for part in self._parts():
            parts.append(part)
            yield
        return Pieces(parts)

    def _parts(self) -> Iterator[bytes]:
        before = self._first
        for text, rest in zip(self._used, self._rest, strict=True):
            for begin in range(0, len(text), LONG_PIECE):
                try:
                    piece = encode(text[begin : begin + LONG_PIECE])
                except UnicodeEncodeError as error:
                    reason = "the result cannot be written as JSON"
                    raise LocalProtocolError("internal_error", reason) from error
                yield piece[1:-1] if begin else before + piece[:-1]
            before = b'"' + rest
        yield before

    def _apart(self, value: Any, depth: int) -> Any:
        if isinstance(value, str) and len(value) > LARGE_ANSWER:
            self._token = self._token or secrets.token_hex(16)  # nobody can have said it
            self._texts.append(value)
            return f"{self._token}-{len(self._texts) - 1}"
        if not depth:
            return value
        if isinstance(value, Struct):
            members = {name: getattr(value, name) for name in value.__struct_fields__}
            changed = self._changed(members, depth)
            return msgspec.structs.replace(value, **changed) if changed else value
        kind: Any = value.__class__
        if kind is dict and len(members := cast("dict[Any, Any]", value)) <= LONG_MEMBERS:
            return {**members, **self._changed(members, depth)}
        if kind is list and len(items := cast("list[Any]", value)) <= LONG_MEMBERS:
            return [self._apart(item, depth - 1) for item in items]
        return value

    def _changed(self, members: dict[Any, Any], depth: int) -> dict[Any, Any]:
        apart = ((name, value, self._apart(value, depth - 1)) for name, value in members.items())
        return {name: after for name, before, after in apart if after is not before}


def batch_in_steps(messages: list[bytes]) -> Generator[None, None, bytes]:
    """`frames.encode_batch`, a step for each piece."""
    out = BytesIO()
    for message in messages:
        out.write(b"," if out.tell() else b"[")
        for piece in pieces_of(message):
            out.write(piece)
            yield
    out.write(b"]")
    return out.getvalue()


def batch_in_pieces(messages: list[bytes]) -> Pieces:
    """`frames.encode_batch`, not put together."""
    parts = [part for message in messages for part in (b",", *pieces_of(message))]
    return Pieces([b"[", *parts[1:], b"]"])
