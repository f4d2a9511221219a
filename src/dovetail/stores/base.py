"""What a store can do: seven verbs, enough for tasks, sessions, logs, single-use seals, counters, caches.

A key is a folder and a name, ``folder/name``; folders are text that may have ``/`` in it, names have none. Values
are bytes. Everything may have a time to live. A store of one process, of one machine or of many is the same to
whoever uses it; `tests/stores/contract.py` says what all of them have in common.

========  =====================================================================================
verb      what for
========  =====================================================================================
get       the value of a key
put       set it, for a while; with ``only_new`` or ``expect`` exactly one of many wins
delete    forget it
append    add to a log, which is a folder, in order; old entries fall off
scan      the keys of a folder and their values, in the order of the names, page by page
lease     hold a key for a while; nobody else gets it until it is given back or runs out
publish   tell everybody who listens right now (`subscribe`), also in other processes
========  =====================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, runtime_checkable

from ..errors import DovetailError
from ..settings import SCAN_PAGE

Take = Callable[[bytes], None]
GAP: Final = ""
"""The topic of those who want to know that news may have been lost."""


class StoreError(DovetailError):
    """The store could not do it. What was wrong in detail is ``__cause__`` and in our log, never sent to a peer."""

    kind = "dependency_failed"


class StoreFull(StoreError):
    """The store holds as much as it may. Wait until something expires, or give it a higher limit."""

    kind = "storage_full"

    def __init__(self, limit: int | None = None, unit: str = "bytes") -> None:
        super().__init__("the store is full" + ("" if limit is None else f": it may hold {limit} {unit}"))


class StoreUnavailable(StoreError):
    """The store does not answer: locked, cut off, stopped. Whether a write was done is not known."""


class StoreUnreadable(StoreError):
    """What is there was written by a newer version, or is damaged: nothing of it is guessed."""


class Store(Protocol):
    """Where things are kept that outlive one request. Times are seconds. Every verb may raise `StoreError`."""

    async def open(self) -> None:
        """Be ready: check what is there, listen to other processes. Every verb does it; this one does it now.

        Raises:
            StoreUnavailable: it cannot be reached.
            StoreUnreadable: it is of a newer version, damaged, or something else altogether.
        """
        ...

    async def get(self, key: str) -> bytes | None:
        """The value of ``key``; None when there is none, or none any more."""
        ...

    async def put(
        self,
        key: str,
        value: bytes,
        *,
        ttl: float | None = None,
        only_new: bool = False,
        expect: bytes | None = None,
        fence: int | None = None,
    ) -> bool:
        """Set ``key``, for ``ttl`` seconds or for good, and say whether it was set.

        With ``only_new`` a key that is there already stays as it is; with ``expect`` one that has any other value
        does; with ``fence`` one whose `lease` is no longer the one that gave this number. The answer is False then.

        Raises:
            StoreFull: there is no room.
        """
        ...

    async def delete(self, key: str) -> bool:
        """Forget ``key``; whether there was one."""
        ...

    async def append(self, folder: str, value: bytes, *, keep: int, ttl: float | None = None) -> str:
        """Add to the log ``folder`` and return the key of the new entry, which comes after all earlier ones.

        At most ``keep`` entries stay; the oldest go. Read a log with ``scan(folder, after=key)``.

        Raises:
            StoreFull: as `put`.
        """
        ...

    async def scan(self, folder: str, *, after: str = "", limit: int = SCAN_PAGE) -> list[tuple[str, bytes]]:
        """At most ``limit`` keys of ``folder`` that sort after the key ``after``, with their values."""
        ...

    async def lease(self, key: str, owner: str, ttl: float) -> int:
        """Take or renew the lease of ``key`` for ``ttl`` seconds; 0 while another owner holds it.

        Otherwise the answer is its number: greater than those of all owners before, the same as long as it is only
        renewed, and what `put` takes as ``fence``. A ``ttl`` of 0 gives the lease back. The key needs no value.
        """
        ...

    async def publish(self, topic: str, message: bytes) -> None:
        """Hand ``message`` to everybody subscribed to ``topic`` now; nothing is kept for later."""
        ...

    def subscribe(self, topic: str, take: Take) -> Callable[[], None]:
        """Have ``take`` called with what is published; call what is returned to stop that.

        ``take`` must neither block nor raise. What other processes publish arrives while the store is open. A
        subscription survives that the store is closed and opened again. The empty topic belongs to no publisher: its
        listeners are called when messages may have been lost, after a time without a connection.
        """
        ...

    async def close(self) -> None:
        """Let go of connections and files. Closing twice is fine."""
        ...


@runtime_checkable
class Bounded(Protocol):
    """A store that says how much it holds: what can give way to other things takes a part of that and no more."""

    most_entries: int
    most_bytes: int


def split(key: str) -> tuple[str, str]:
    """The folder and the name of ``key``; the folder of a name alone is the empty one."""
    folder, _, name = key.rpartition("/")
    return folder, name


def entry_name(number: int) -> str:
    """The name of the entry of a log with this number: names sort like the numbers do."""
    return f"{number:016d}"
