"""Stores by URL, for command lines and environments."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ..errors import DovetailError
from .base import Store, StoreError


def from_url(url: str) -> Store:
    """The store that ``url`` names; nothing is opened yet.

    ``sqlite:///state.db`` lies in the working directory, ``sqlite:////var/lib/x/state.db`` is absolute, and a bare
    file name is SQLite too; ``redis://``, ``rediss://``, ``redis+sentinel://`` and ``redis+cluster://`` are Redis;
    ``memory://`` is the memory of this process.

    Raises:
        DovetailError: it names no store.
    """
    scheme, found, rest = url.partition("://")
    if not found or scheme == "sqlite":
        path = rest[1:] if found else url
        if not path or (found and not rest.startswith("/")):
            raise DovetailError(f"a SQLite store is sqlite:///FILE or FILE, not {url!r}")
        from .sqlite import SqliteStore

        return SqliteStore(Path(path))
    if scheme == "memory":
        from .memory_store import MemoryStore

        return MemoryStore()
    if scheme.partition("+")[0] not in ("redis", "rediss"):
        raise DovetailError(f"no store has a URL that begins with {scheme}://")
    from .redis import RedisStore

    return RedisStore(url)


def check(store: Store | None) -> None:
    """Open ``store`` and close it again, before anything is served from it.

    Raises:
        DovetailError: it cannot be used; which and why, for whoever started the process.
    """
    if store is not None:
        asyncio.run(_tried(store))


async def _tried(store: Store) -> None:
    try:
        await store.open()
    except StoreError as error:
        reason = "" if error.__cause__ is None else f" ({' '.join(str(error.__cause__).split())})"
        raise DovetailError(f"{store!r} cannot be used: {error.message}{reason}") from None
    finally:
        await store.close()
