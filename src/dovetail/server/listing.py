"""Pages of a list, each encoded once per revision and dropped when the list changes.

A cursor is a sealed offset, bound to the list it was made for: its name, its contents and the page size. One
made by another worker with the same register and keys is good; one from before a change is refused, and the
client starts over. A page that was served before is found by its cursor alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Raw

from ..core.channel import Call
from ..errors import ProtocolError
from ..model import PaginatedResult
from ..settings import PAGES_KEPT

if TYPE_CHECKING:
    from .server import Server

PURPOSE: Final = "cursor"
NEVER: Final = 1 << 53
"""A cursor ends with its list, not with time."""

Key = tuple[int, str, str | None, int]


class Listing:
    """One list of the protocol: ``tools/list`` and its three siblings."""

    def __init__(
        self,
        server: Server,
        name: str,
        definitions: Callable[[], Iterable[Any]],
        result: Callable[[list[Any]], PaginatedResult],
    ) -> None:
        self._server = server
        self._name = name
        self._definitions = definitions
        self._result = result
        self._pages: dict[Key, Raw] = {}
        self._bound: bytes | None = None

    def changed(self) -> None:
        """Drop what was encoded: the list is another one now."""
        self._pages.clear()
        self._bound = None

    def page(self, call: Call) -> Raw:
        """The page ``call`` asks for.

        Raises:
            ProtocolError: of kind ``invalid_cursor``, or ``invalid_page_size`` where the dialect refuses one.
        """
        params = call.params
        cursor = None if params.cursor is UNSET else params.cursor
        size = self._server.page_size if params.limit is UNSET else self._size(call)
        key = (call.revision.index, call.codec.dialect.name, cursor, size)
        page = self._pages.get(key)
        if page is None:
            page = call.codec.prepare(self._build(cursor, size))
            if len(self._pages) >= PAGES_KEPT:
                self._pages.clear()
            self._pages[key] = page
        return page

    def _size(self, call: Call) -> int:
        wish: Any = call.params.limit
        most = self._server.page_size
        refuses = call.codec.dialect.refuse_page_size and not call.revision.modern
        if type(wish) is not int or wish < 1:
            if refuses:
                raise ProtocolError("invalid_page_size", "limit must be an integer of at least 1")
            return most
        if wish > most and refuses:
            raise ProtocolError("page_size_too_large", f"limit is at most {most}", data={"maximum": most})
        return min(wish, most)

    def _build(self, cursor: str | None, size: int) -> PaginatedResult:
        server = self._server
        definitions = list(self._definitions())
        bound = self._bound
        if bound is None:
            bound = self._bound = self._digest(definitions)
        offset = 0 if cursor is None else self._open(cursor, bound)
        result = self._result(definitions[offset : offset + size])
        result.ttl_ms, result.cache_scope = server.ttl_ms, server.cache_scope
        if offset + size < len(definitions):
            payload = str(offset + size).encode()
            result.next_cursor = server.seal.seal(PURPOSE, payload, expires=NEVER, bound=bound)
        return result

    def _digest(self, definitions: Sequence[Any]) -> bytes:
        digest = hashlib.sha256(self._name.encode())
        for definition in definitions:
            digest.update(msgspec.json.encode(definition, order="sorted"))
        return digest.digest()

    def _open(self, cursor: str, bound: bytes) -> int:
        try:
            return int(self._server.seal.open(PURPOSE, cursor, now=0, bound=bound))
        except ProtocolError:
            raise ProtocolError(
                "invalid_cursor", "the cursor is unknown or the list has changed: start over"
            ) from None
