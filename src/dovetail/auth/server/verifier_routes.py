"""Pages that a verifier serves next to the endpoint: those of an authorization server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct


class PageRequest(Struct, frozen=True, eq=False):
    """A request for a page."""

    method: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    offered: frozenset[str]
    """The scopes of all components of the server."""
    owner: str = ""
    """The owner for limits: represents the client address, as far as known."""


class PageAnswer(Struct, frozen=True, eq=False):
    status: int
    body: bytes = b""
    headers: Sequence[tuple[str, str]] = ()
    kind: str = "application/json"


Page: TypeAlias = Callable[[PageRequest], Awaitable[PageAnswer]]
