"""Following the pages of a list, but not for ever."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import UNSET

from ...errors import RemoteProtocolError

MOST_PAGES = 1000
MOST_ENTRIES = 1_000_000


async def follow(page: Callable[[Any], Awaitable[Any]], member: str) -> list[Any]:
    """Fetch pages until one has no ``nextCursor``; an empty cursor is a cursor like any other.

    Raises:
        RemoteProtocolError: the pages go round in a circle, or never end.
    """
    found: list[Any] = []
    seen: set[str] = set()
    cursor: Any = UNSET
    for _ in range(MOST_PAGES):
        result = await page(cursor)
        found.extend(getattr(result, member))
        cursor = result.next_cursor
        if cursor is UNSET or cursor is None:
            return found
        if cursor in seen:
            raise RemoteProtocolError("invalid_cursor", "the server's pages go round in a circle")
        if len(found) > MOST_ENTRIES:
            break
        seen.add(cursor)
    raise RemoteProtocolError(
        "invalid_cursor", f"the list has more than {MOST_PAGES} pages or too many entries"
    )
