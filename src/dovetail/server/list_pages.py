"""Pages of a list, each encoded once per revision and discarded when the list changes.

A cursor is a sealed position, bound to the list and to the caller. It contains a digest of the list, so a cursor from
before a change gives ``cursor_expired`` and any other text gives ``invalid_cursor``. All workers with the same
components and keys accept it. Where components have access rights, each caller gets a list of the components it may
use.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from msgspec import UNSET, Raw

from ..core.channel import Call, Channel
from ..core.principal import key_of
from ..core.rights import Rights, visible
from ..errors import ProtocolError
from ..model import ClientCapabilities, PaginatedResult
from ..model.meta import APP_MIME_TYPE, APPS_EXTENSION
from ..wire.seal import bind

if TYPE_CHECKING:
    from .dispatcher import Dispatcher

PAGES_KEPT: Final = 512
"""Encoded pages per list; when a peer requests many page sizes, the cache is cleared, so it cannot grow."""

NEVER: Final = 1 << 53
"""A cursor expires with its list, not with time."""
_DIGEST: Final = 16

Key = tuple[int, str, str | None, int, int, tuple[bool, ...], str | None]
"""The cache key: revision, dialect, cursor, page size, offset, the restricted entries shown, and the caller."""


class Listing:
    """One list of the protocol, such as ``tools/list``."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        name: str,
        entries: Callable[[], Iterable[tuple[Any, Rights]]],
        result: Callable[[list[Any]], PaginatedResult],
        *,
        private: bool = False,
    ) -> None:
        self._dispatcher = dispatcher
        self._name = name
        self._entries = entries
        """The entries, each with its access rights."""
        self._result = result
        self._private = private
        """The list was already filtered for its caller."""
        self._restricted: list[tuple[int, Rights]] | None = None
        """The indices of entries with access rights; None until they are first needed."""
        self._app_only: frozenset[int] = frozenset()
        """The indices of tools that only app pages can see; computed together with the restricted entries."""
        self._pages: dict[Key, Raw] = {}
        self._wholes: dict[frozenset[int], tuple[list[Any], bytes]] = {}
        """The whole list and its digest, by the set of hidden entries: a long list has many pages."""

    def changed(self) -> None:
        """Discard the encoded pages: the list has changed."""
        self._pages.clear()
        self._wholes.clear()
        self._restricted = None

    async def page(self, call: Call, channel: Channel) -> Raw:
        """The page that ``call`` requests.

        Raises:
            ProtocolError: of kind ``invalid_cursor`` or ``cursor_expired``, or what `page_size` raises.
        """
        params = call.params
        cursor = None if params.cursor is UNSET else params.cursor
        size = page_size(self._dispatcher, call)
        start = page_offset(call)
        restricted = self._find_restricted() if self._restricted is None else self._restricted
        seen = tuple(visible(rights, call.principal) for _, rights in restricted) if restricted else ()
        unseen = self._app_only if self._app_only and not shows_apps(call.capabilities) else ()
        if unseen:
            seen = (*seen, False)  # clients without MCP Apps get another list
        owner = None if call.principal is None else call.principal.key
        key = (call.revision.index, call.codec.dialect.name, cursor, size, start, seen, owner)
        page = self._pages.get(key)
        if page is None:
            hidden = {place for (place, _), shown in zip(restricted, seen, strict=False) if not shown}
            hidden.update(unseen)
            page = call.codec.prepare(self._build(call, cursor, size, start, hidden))
            if len(self._pages) >= PAGES_KEPT:
                self._pages.clear()
            self._pages[key] = page
        return page

    def _find_restricted(self) -> list[tuple[int, Rights]]:
        entries = list(enumerate(self._entries()))
        self._restricted = [(place, rights) for place, (_, rights) in entries if rights]
        if self._name == "tools":
            self._app_only = frozenset(place for place, (one, _) in entries if _is_app_only(one))
        return self._restricted

    def _build(
        self, call: Call, cursor: str | None, size: int, start: int, hidden: set[int]
    ) -> PaginatedResult:
        dispatcher = self._dispatcher
        definitions, digest = self._whole(frozenset(hidden))
        if start > len(definitions):
            raise _invalid_offset(f"the list has {len(definitions)} entries")
        try:
            offset = start if cursor is None else self._offset(call, cursor, digest)
        except ProtocolError as error:
            if error.kind == "invalid_cursor" and len(definitions) <= size and _refuses(call):
                raise ProtocolError(
                    "pagination_not_supported", "the list has one page: send no cursor"
                ) from None
            raise
        result = self._result(definitions[offset : offset + size])
        result.ttl_ms, result.cache_scope = dispatcher.settings.ttl_ms, dispatcher.settings.cache_scope
        if call.principal is not None or self._restricted or self._private or self._app_only:
            result.cache_scope = "private"  # it contains entries that only this caller may see
        if offset + size < len(definitions):
            position = digest + str(offset + size).encode()
            result.next_cursor = seal_cursor(dispatcher, call, self._name, position)
        return result

    def _whole(self, hidden: frozenset[int]) -> tuple[list[Any], bytes]:
        found = self._wholes.get(hidden)
        if found is None:
            if len(self._wholes) >= PAGES_KEPT:
                self._wholes.clear()
            definitions = [one for place, (one, _) in enumerate(self._entries()) if place not in hidden]
            found = self._wholes[hidden] = definitions, _digest(definitions)
        return found

    def _offset(self, call: Call, cursor: str, digest: bytes) -> int:
        position = open_cursor(self._dispatcher, call, self._name, cursor)
        if position[:_DIGEST] != digest:
            raise ProtocolError("cursor_expired", "the list has changed: start over")
        return int(position[_DIGEST:])


def shows_apps(capabilities: ClientCapabilities) -> bool:
    """Whether a client declares MCP Apps with the supported MIME type."""
    settings = capabilities.extension(APPS_EXTENSION)
    return settings is not None and APP_MIME_TYPE in (settings.get("mimeTypes") or (APP_MIME_TYPE,))


def _is_app_only(tool: Any) -> bool:
    """MCP Apps, Resource Discovery: a host does not show its model what is visible to ``app`` alone."""
    ui: Any = tool.meta.get("ui") if tool.meta else None
    shown = cast("dict[str, Any]", ui).get("visibility") if isinstance(ui, dict) else None
    return isinstance(shown, list) and "model" not in shown


def page_size(dispatcher: Dispatcher, call: Call) -> int:
    """The page size for ``call``."""
    wish: Any = call.params.limit
    most = dispatcher.page_size
    if wish is UNSET:
        return most
    refuses = _refuses(call)
    if type(wish) is not int or wish < 1:
        if refuses:
            raise ProtocolError("invalid_page_size", "limit must be an integer of at least 1")
        return most
    if wish > most and refuses:
        raise ProtocolError("page_size_too_large", f"limit is at most {most}", data={"maximum": most})
    return min(wish, most)


def page_offset(call: Call) -> int:
    """The offset that ``call`` requests: erlmcp has ``offset``; it is 0 for all other dialects.

    Raises:
        ProtocolError: of kind ``invalid_offset``.
    """
    wish: Any = call.params.offset
    if wish is UNSET or not _refuses(call):
        return 0
    if type(wish) is not int or wish < 0:
        raise _invalid_offset("offset must be an integer of at least 0")
    return wish


def _refuses(call: Call) -> bool:
    return call.codec.dialect.refuse_page_size and not call.revision.modern


def _invalid_offset(reason: str) -> ProtocolError:
    return ProtocolError("invalid_offset", reason)


def seal_cursor(dispatcher: Dispatcher, call: Call, name: str, position: bytes) -> str:
    """A sealed cursor for ``position`` in the list ``name``, valid for the principal of ``call`` only."""
    return dispatcher.seal.seal("cursor", position, expires=NEVER, bound=bind(key_of(call.principal), name))


def open_cursor(dispatcher: Dispatcher, call: Call, name: str, cursor: str) -> bytes:
    """The position in a cursor.

    Raises:
        ProtocolError: of kind ``invalid_cursor``: it is not a cursor of this server, or was issued to another caller.
    """
    try:
        return dispatcher.seal.open("cursor", cursor, now=0, bound=bind(key_of(call.principal), name))
    except ProtocolError:
        raise ProtocolError("invalid_cursor", "the cursor is unknown: start over") from None


def _digest(definitions: Sequence[Any]) -> bytes:
    digest = hashlib.sha256()
    for definition in definitions:
        digest.update(msgspec.json.encode(definition, order="sorted"))
    return digest.digest()[:_DIGEST]
