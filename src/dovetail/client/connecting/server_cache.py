"""`ServerCache`: the era and HTTP transport of known servers.

Finding the era costs a round trip, or a process for a legacy server that exits on the probe. The result is
therefore cached for the life of this process, by command line or URL. It is only a hint: if a connection with
it fails, `forget` it and negotiate in full.

A missing response proves nothing: a busy modern server looks like a legacy one. Such results are `tentative`
and expire after `TENTATIVE_SECONDS`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Final

from msgspec import Struct

SERVER_CACHE_SIZE: Final = 1024
TENTATIVE_SECONDS: Final = 300.0
"""Seconds after which a server that did not respond to the probe is probed again."""


class CachedServer(Struct, frozen=True):
    """How a server was reached last time."""

    era: str
    """The era: "modern" or "legacy"."""
    revision: str
    transport: str = "stream"
    """The transport: "stream", or for HTTP "streamable" or "sse"."""
    tentative: bool = False
    """Whether the probe got no response, rather than a refusal."""


class ServerCache:
    """A bounded table with least-recently-used eviction."""

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
        # A connection based on a tentative result does not confirm it.
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
"""The cache of this process."""
