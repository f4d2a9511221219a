"""`ResponseCache`: responses that a server allows the client to cache, with their lifetime.

Only six methods have `ttlMs` and `cacheScope`. An entry belongs to one server (``origin``), one method and
its parameters; a private entry also to the principal that fetched it, so that a shared cache never returns
one user's response to another.

A result is stored as JSON and decoded for each caller, so that callers cannot modify each other's objects and
the size is known. The clock is passed in.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

import msgspec
from msgspec import Struct

from ...settings import check_kinds
from ...settings.parameter_kinds import CLOCK, WHOLE
from ...wire.methods import METHODS

CACHE_ENTRIES: Final = 1024
"""Responses that are cached."""
CACHE_BYTES: Final = 64 << 20
"""Bytes of cached responses."""


CACHEABLE = frozenset(row.name for row in METHODS.values() if row.cacheable and row.extension is None)

# Methods that a notification makes stale. `forget_resource` handles updates of one resource.
CHANGED_BY: dict[str, tuple[str, ...]] = {
    "notifications/tools/list_changed": ("tools/list",),
    "notifications/prompts/list_changed": ("prompts/list",),
    "notifications/resources/list_changed": ("resources/list", "resources/templates/list"),
}

Key = tuple[str, str, bytes, str | None]


class Entry(Struct, eq=False):
    """One cached result as JSON. Fresh while ``now < expires``."""

    data: bytes
    type: Any
    expires: float


class ResponseCache:
    """Results by server, method, parameters and principal, with least-recently-used eviction.

    At most ``entries`` results of together ``size`` bytes are stored.

    Share one instance between clients to share public results.
    """

    def __init__(
        self, *, entries: int = CACHE_ENTRIES, size: int = CACHE_BYTES, clock: Callable[[], float] = monotonic
    ) -> None:
        check_kinds(
            {
                "entries": WHOLE,
                "size": WHOLE,
                "clock": CLOCK,
            },
            locals(),
        )
        self._entries: OrderedDict[Key, Entry] = OrderedDict()
        self._limit = entries
        self._most = size
        self._size = 0
        self._clock = clock

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, origin: str, method: str, params: bytes, principal: str | None) -> Any:
        """Return a decoded copy of a fresh result, or None."""
        for owner in (principal, None) if principal is not None else (None,):
            key = (origin, method, params, owner)
            entry = self._entries.get(key)
            if entry is None:
                continue
            if self._clock() < entry.expires:
                self._entries.move_to_end(key)
                return msgspec.json.decode(entry.data, type=entry.type)
            self._drop(key)
        return None

    def put(
        self,
        origin: str,
        method: str,
        params: bytes,
        principal: str | None,
        result: Any,
        *,
        ttl_ms: float,
        public: bool,
    ) -> None:
        """Store ``result``, unless its time to live is zero or less.

        A private result without a principal belongs to its ``origin``, which is then one client.
        """
        if ttl_ms <= 0 or method not in CACHEABLE:
            return
        key = (origin, method, params, None if public else principal)
        self._drop(key)
        entry = Entry(msgspec.json.encode(result), type(result), self._clock() + ttl_ms / 1000)
        self._entries[key] = entry
        self._size += len(entry.data)
        while len(self._entries) > self._limit or self._size > self._most:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._size -= len(entry.data)

    def forget(self, origin: str, *methods: str) -> None:
        """Remove responses of ``origin`` to these methods; without methods, all of them."""
        for key in [k for k in self._entries if k[0] == origin and (not methods or k[1] in methods)]:
            self._drop(key)

    def forget_resource(self, origin: str, uri: str) -> None:
        """Remove one resource and its parents, because an update may name a part of a resource."""
        for key in [k for k in self._entries if k[0] == origin and k[1] == "resources/read"]:
            kept = key[2].decode()
            if uri == kept or uri.startswith(kept.rstrip("/") + "/"):
                self._drop(key)
