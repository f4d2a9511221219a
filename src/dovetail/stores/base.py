"""The `Store` protocol: a key-value store with leases, logs and publish/subscribe.

Sessions, tasks, event replay, rate limits, idempotency results and caches are built on these operations.

A key is ``folder/name``. A folder is text that may contain ``/``; a name contains none. Values are bytes.
Every entry may have a time to live. All implementations pass the contract suite in
`tests/stores/contract.py`.

=========  =====================================================================================
operation  purpose
=========  =====================================================================================
get        return the value of a key
put        set a value; with ``only_new`` or ``expect`` exactly one of several writers succeeds
delete     remove a key
append     add an entry to a log (a folder) in order; the oldest entries are dropped
scan       list the keys and values of a folder, ordered by name, one page at a time
lease      hold a key exclusively until it is released or expires
publish    send a message to all current subscribers, also in other processes (`subscribe`)
=========  =====================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, runtime_checkable

from ..errors import DovetailError

SCAN_PAGE: Final = 100
"""Entries of one page of `Store.scan`."""
MAX_PUBSUB_MESSAGE_BYTES: Final = 16 << 20
"""Size of one published message."""


MessageCallback = Callable[[bytes], None]
GAP: Final = ""
"""The topic of gap notifications: its subscribers learn that messages may have been lost."""


class StoreError(DovetailError):
    """A store operation failed. The detail is in ``__cause__`` and in the log; it is never sent to a peer."""

    kind = "dependency_failed"


class StoreFull(StoreError):
    """The store reached its size limit. Wait until entries expire, or configure a higher limit."""

    kind = "storage_full"

    def __init__(self, limit: int | None = None, unit: str = "bytes") -> None:
        super().__init__("the store is full" + ("" if limit is None else f" (limit: {limit} {unit})"))


class StoreUnavailable(StoreError):
    """The store is locked, unreachable or stopped. It is unknown whether a write was applied."""


class StoreUnreadable(StoreError):
    """A stored value was written by a newer version, or is damaged."""


class Store(Protocol):
    """A key-value store. All times are seconds. Every operation may raise `StoreError`."""

    async def open(self) -> None:
        """Open connections and files now. Other operations open the store when it is needed.

        Raises:
            StoreUnavailable: the store cannot be reached.
            StoreUnreadable: the data was written by a newer version, is damaged, or is not a Dovetail store.
        """
        ...

    async def get(self, key: str) -> bytes | None:
        """Return the value of ``key``, or None if the key is missing or has expired."""
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
        """Set ``key``, optionally for ``ttl`` seconds, and return whether it was set.

        With ``only_new`` an existing key is not changed. With ``expect`` a key with a different value is not
        changed. With ``fence`` the key is only set while the `lease` that returned this number is still
        valid. The result is False in these cases.

        Raises:
            StoreFull: the size limit is reached.
        """
        ...

    async def delete(self, key: str) -> bool:
        """Remove ``key`` and return whether it existed."""
        ...

    async def append(self, folder: str, value: bytes, *, keep: int, ttl: float | None = None) -> str:
        """Append to the log ``folder`` and return the key of the new entry. Keys increase.

        The log keeps at most ``keep`` entries and drops the oldest. Read a log with ``scan(folder,
        after=key)``.

        Raises:
            StoreFull: the size limit is reached.
        """
        ...

    async def scan(self, folder: str, *, after: str = "", limit: int = SCAN_PAGE) -> list[tuple[str, bytes]]:
        """Return at most ``limit`` keys of ``folder`` that sort after the key ``after``, with their values."""
        ...

    async def lease(self, key: str, owner: str, ttl: float) -> int:
        """Acquire or renew the lease of ``key`` for ``ttl`` seconds. Return 0 while another owner holds it.

        Otherwise return the fencing number of the lease: it stays the same on renewal and is greater than the
        numbers of all earlier owners. Pass it to `put` as ``fence``. A ``ttl`` of 0 releases the lease. The
        key needs no value.
        """
        ...

    async def publish(self, topic: str, message: bytes) -> None:
        """Send ``message`` to all current subscribers of ``topic``. It is not stored for later subscribers."""
        ...

    def subscribe(self, topic: str, take: MessageCallback) -> Callable[[], None]:
        """Call ``take`` with each message of ``topic``. The returned function ends the subscription.

        ``take`` must neither block nor raise. Messages of other processes arrive while the store is open. A
        subscription survives closing and reopening the store. The empty topic is `GAP`: its subscribers are
        called after a disconnect, when messages may have been lost.
        """
        ...

    async def close(self) -> None:
        """Close connections and files. Closing twice is allowed."""
        ...


@runtime_checkable
class BoundedStore(Protocol):
    """A store with a known capacity, so that caches can limit themselves to a fraction of it."""

    max_entries: int
    max_bytes: int


def split(key: str) -> tuple[str, str]:
    """Split ``key`` into folder and name. The folder of a key without ``/`` is the empty string."""
    folder, _, name = key.rpartition("/")
    return folder, name


def entry_name(number: int) -> str:
    """Return the name of log entry ``number``. Names sort in the order of the numbers."""
    return f"{number:016d}"
