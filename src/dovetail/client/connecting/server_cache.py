"""What earlier connections learnt about a server: its era, and which HTTP transport it speaks.

Finding the era costs a round trip, or a whole process for a legacy server that dies of the question. What was found is
therefore kept for the life of this process, per command line or URL, in a bounded table. It is a shortcut and never a
truth: when a connection made with it fails, `forget` it and negotiate in full.

Silence proves nothing: a modern server that was busy, or a proxy that lost the probe, looks like a legacy one. What
rests on silence is therefore `tentative`, and holds for `TENTATIVE_SECONDS` only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Final

from msgspec import Struct

SERVER_CACHE_SIZE: Final = 1024
TENTATIVE_SECONDS: Final = 300.0
"""Until a server that was silent about the probe is probed again."""


class CachedServer(Struct, frozen=True):
    """How a server was reached the last time."""

    era: str
    """"modern" or "legacy"."""
    revision: str
    transport: str = "stream"
    """"stream", "streamable" or "sse": for HTTP, which of its two transports answered."""
    tentative: bool = False
    """The probe was lost or not answered, rather than refused."""


class ServerCache:
    """A bounded table; the one not needed for longest makes room."""

    def __init__(self, limit: int = SERVER_CACHE_SIZE, clock: Callable[[], float] = monotonic) -> None:
        self._known: OrderedDict[str, tuple[CachedServer, float]] = OrderedDict()
        self._limit = limit
        self._clock = clock

    def get(self, key: str | None) -> CachedServer | None:
        if key is None:
            return None
        known = self._known.get(key)
        if known is None:
            return None
        server, since = known
        if server.tentative and self._clock() - since >= TENTATIVE_SECONDS:
            del self._known[key]
            return None
        self._known.move_to_end(key)
        return server

    def remember(self, key: str | None, server: CachedServer) -> None:
        if key is None:
            return
        before = self._known.get(key)
        # A connection that tentative knowledge led to proves no more than the knowledge did.
        if before is not None and before[0] == server:
            return
        self._known[key] = (server, self._clock())
        self._known.move_to_end(key)
        while len(self._known) > self._limit:
            self._known.popitem(last=False)

    def forget(self, key: str | None) -> None:
        if key is not None:
            self._known.pop(key, None)


SERVER_CACHE = ServerCache()
"""The table of this process."""
