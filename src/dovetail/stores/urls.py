"""Stores by URL, for command lines and environments."""

from __future__ import annotations

from pathlib import Path

from ..errors import DovetailError
from .base import Store


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
        from .memory import MemoryStore

        return MemoryStore()
    if scheme.partition("+")[0] not in ("redis", "rediss"):
        raise DovetailError(f"no store has a URL that begins with {scheme}://")
    from .redis import RedisStore

    return RedisStore(url)
