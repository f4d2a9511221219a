"""What a store can do: seven verbs, enough for tasks, sessions, logs, single-use seals, counters, caches.

Keys are text with ``/`` between their parts, values are bytes. Everything may have a time to live. A store of
one process, of one machine or of many is the same to whoever uses it; `tests/stores/contract.py` says what
all of them have in common.

========  =====================================================================================
verb      what for
========  =====================================================================================
get       the value of a key
put       set it, for a while; with ``only_new`` exactly one of many wins
delete    forget it
append    add to a log whose entries are keys of their own, in order; old ones fall off
scan      keys and values below a prefix, in the order of the keys, page by page
lease     hold a name for a while; nobody else gets it until it is given back or runs out
publish   tell everybody who listens right now (`subscribe`), also in other processes
========  =====================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..errors import DovetailError
from ..settings import SCAN_PAGE

Take = Callable[[bytes], None]


class StoreFull(DovetailError):
    """The store holds as much as it may. Wait until something expires, or give it a higher limit."""

    kind = "internal_error"

    def __init__(self, limit: int, unit: str) -> None:
        super().__init__(f"the store is full: it may hold {limit} {unit}")


class Store(Protocol):
    """Where things are kept that outlive one request. Times are seconds."""

    async def get(self, key: str) -> bytes | None:
        """The value of ``key``; None when there is none, or none any more."""
        ...

    async def put(self, key: str, value: bytes, *, ttl: float | None = None, only_new: bool = False) -> bool:
        """Set ``key``, for ``ttl`` seconds or for good, and say whether it was set.

        With ``only_new`` a key that is there already stays as it is, and the answer is False.

        Raises:
            StoreFull: there is no room for another key. Keys that exist can always be set again.
        """
        ...

    async def delete(self, key: str) -> bool:
        """Forget ``key``; whether there was one."""
        ...

    async def append(self, prefix: str, value: bytes, *, keep: int, ttl: float | None = None) -> str:
        """Add to the log ``prefix`` and return the key of the new entry, which comes after all earlier ones.

        At most ``keep`` entries stay; the oldest go. Read a log with ``scan(prefix + "/", after=key)``.

        Raises:
            StoreFull: as `put`.
        """
        ...

    async def scan(self, prefix: str, *, after: str = "", limit: int = SCAN_PAGE) -> list[tuple[str, bytes]]:
        """At most ``limit`` keys that begin with ``prefix`` and sort after ``after``, with their values."""
        ...

    async def lease(self, name: str, owner: str, ttl: float) -> bool:
        """Take or renew the lease ``name`` for ``ttl`` seconds; False while another owner holds it.

        A ``ttl`` of 0 gives it back.
        """
        ...

    async def publish(self, topic: str, message: bytes) -> None:
        """Hand ``message`` to everybody subscribed to ``topic`` now; nothing is kept for later."""
        ...

    def subscribe(self, topic: str, take: Take) -> Callable[[], None]:
        """Have ``take`` called with what is published; call what is returned to stop that.

        ``take`` must neither block nor raise.
        """
        ...

    async def close(self) -> None:
        """Let go of connections and files. Closing twice is fine."""
        ...
