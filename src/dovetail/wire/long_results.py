"""Bodies in pieces. Only the HTTP server uses them, and it will not for long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..settings import LONG_PIECE


class Pieces:
    """A large answer that nobody has put together."""

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[bytes]:
        return iter(())


Body = bytes | Pieces


def pieces_of(body: Any) -> Iterator[bytes]:
    return (body[begin : begin + LONG_PIECE] for begin in range(0, len(body), LONG_PIECE))


def whole(body: Any) -> bytes:
    return body
