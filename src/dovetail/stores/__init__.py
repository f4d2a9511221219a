"""Stores: state that outlives a request, a worker process or a machine.

`MemoryStore` lasts as long as its process, `SqliteStore` uses one file for all workers of a machine,
`RedisStore` uses one Redis or Valkey for many machines. `from_url` creates the store that a URL names. Start
reading at `base`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .base import Store, StoreError, StoreFull, StoreUnavailable, StoreUnreadable
    from .memory_store import MemoryStore
    from .redis import RedisStore
    from .sqlite import SqliteStore
    from .store_urls import from_url

_HOMES = {
    "base": "Store StoreError StoreFull StoreUnavailable StoreUnreadable",
    "memory_store": "MemoryStore",
    "redis": "RedisStore",
    "sqlite": "SqliteStore",
    "store_urls": "from_url",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "MemoryStore", "RedisStore", "SqliteStore", "Store", "StoreError", "StoreFull", "StoreUnavailable",
    "StoreUnreadable", "from_url",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # Import lazily: a server without a store loads only `base`.
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
