"""Create a store from a URL, for command lines and environment variables."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ..errors import DovetailError
from .base import Store, StoreError


def from_url(url: str) -> Store:
    """Return the store that ``url`` names, without opening it.

    ``sqlite:///state.db`` is relative to the working directory, ``sqlite:////var/lib/x/state.db`` is
    absolute, and a bare file name means SQLite. ``redis://``, ``rediss://``, ``redis+sentinel://`` and
    ``redis+cluster://`` are Redis. ``memory://`` is the memory of this process.

    Raises:
        DovetailError: the URL is not valid.
    """
    scheme, found, rest = url.partition("://")
    if not found or scheme == "sqlite":
        path = rest[1:] if found else url
        if not path or (found and not rest.startswith("/")):
            raise DovetailError(f"not a valid SQLite store URL: {url!r}; use sqlite:///FILE or FILE")
        from .sqlite import SqliteStore

        return SqliteStore(Path(path))
    if scheme == "memory":
        from .memory_store import MemoryStore

        return MemoryStore()
    if scheme.partition("+")[0] not in ("redis", "rediss"):
        raise DovetailError(f"unknown store URL scheme {scheme}://; use sqlite://, redis:// or memory://")
    from .redis import RedisStore

    return RedisStore(url)


def check(store: Store | None) -> None:
    """Open and close ``store`` once, before a server starts with it.

    Raises:
        DovetailError: the store cannot be used. The message names the store and the reason.
    """
    if store is not None:
        asyncio.run(_probe(store))


async def _probe(store: Store) -> None:
    try:
        await store.open()
    except StoreError as error:
        reason = "" if error.__cause__ is None else f" ({' '.join(str(error.__cause__).split())})"
        raise DovetailError(f"{store!r} cannot be used: {error.message}{reason}") from None
    finally:
        await store.close()
