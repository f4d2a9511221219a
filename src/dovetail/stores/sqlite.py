"""`SqliteStore`: a store in one SQLite file for all processes of one machine. It survives `kill -9`.

Write-ahead logging lets processes read while another writes. With ``durable=True`` every commit waits for the
disk and survives a power failure. That costs some milliseconds per commit, shared by all writers of a batch.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from ..settings import check_kinds
from ..settings.parameter_kinds import CLOCK, FLAG, PATH, SECONDS, WHOLE
from .base import SCAN_PAGE, MessageCallback, StoreFull, StoreUnavailable, StoreUnreadable, entry_name, split
from .pubsub import PubSub
from .sqlite_writer import SqliteWriter, is_locked, store_error

SQLITE_STORE_BYTES: Final = 4 << 30
"""Default size limit of a SQLite store."""
SQLITE_BUSY_TIMEOUT: Final = 5.0
"""How long a write waits for the lock of another process."""
SQLITE_RETRY_DELAY: Final = 0.01
"""Delay between attempts to set up a new file that another process is setting up too."""
SQLITE_SWEEP_ENTRIES: Final = 500
"""Expired entries that one sweep deletes."""
SQLITE_SWEEP_INTERVAL: Final = 5.0
"""Minimum time between two sweeps."""


T = TypeVar("T")

VERSION: Final = 1
"""Version of the tables. A file with a newer version is rejected."""
_APPLICATION: Final = 0x44_4F_56_45
"""``DOVE``: the application id in the file header."""
_TABLES: Final = f"""
create table entries (
    folder text not null, name text not null, value blob not null, expires real, primary key (folder, name)
) without rowid;
create index expiring on entries (expires) where expires is not null;
create table leases (key text primary key, owner text not null, expires real not null, number integer not null)
    without rowid;
pragma application_id = {_APPLICATION};
pragma user_version = {VERSION};
"""
_PAGE: Final = 4096
_LIVE: Final = "(expires is null or expires > ?)"


class SqliteStore:
    """A store in one SQLite file, which all workers on a machine can share."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_bytes: int = SQLITE_STORE_BYTES,
        durable: bool = False,
        busy_timeout: float = SQLITE_BUSY_TIMEOUT,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Set the file and its limits. The file is opened later.

        Args:
            path: The file; it is created if it does not exist.
            max_bytes: The largest size of the file, in bytes.
            durable: Whether each write waits until it survives a power failure.
            busy_timeout: Seconds to wait while another process writes.
        """
        check_kinds(
            {
                "path": PATH,
                "max_bytes": WHOLE,
                "durable": FLAG,
                "busy_timeout": SECONDS,
                "clock": CLOCK,
            },
            locals(),
        )
        self.path = Path(path)
        self.max_bytes = max_bytes
        self.max_entries = sys.maxsize  # only bytes are limited
        self._durable = durable
        self._busy = busy_timeout
        self._clock = clock
        self._writer: SqliteWriter | None = None
        self._pubsub = PubSub(self.path)
        self._swept = 0.0

    def __repr__(self) -> str:
        return f"SqliteStore({str(self.path)!r})"

    async def open(self) -> None:
        await self._do(lambda connection: None)
        await self._pubsub.open()

    async def get(self, key: str) -> bytes | None:
        return await self._do(lambda connection: self._value(connection, key))

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
        def do(connection: sqlite3.Connection) -> bool:
            if only_new or expect is not None:
                old = self._value(connection, key)
                if (only_new and old is not None) or (expect is not None and old != expect):
                    return False
            if fence is not None and self._fence(connection, key) != fence:
                return False
            self._set(connection, key, value, ttl)
            return True

        return await self._do(do, writes=True)

    async def delete(self, key: str) -> bool:
        def do(connection: sqlite3.Connection) -> bool:
            # An expired entry counts as missing; the sweep removes it later.
            query = f"delete from entries where folder = ? and name = ? and {_LIVE}"
            return connection.execute(query, (*split(key), self._clock())).rowcount > 0

        return await self._do(do, writes=True)

    async def append(self, folder: str, value: bytes, *, keep: int, ttl: float | None = None) -> str:
        def do(connection: sqlite3.Connection) -> str:
            query = "select max(name) from entries where folder = ?"
            last = connection.execute(query, (folder,)).fetchone()[0]
            # An empty log continues at the current time: a new number must exceed those already read.
            number = int(last) if last is not None else int(self._clock() * 1000)
            key = f"{folder}/{entry_name(number + 1)}"
            self._set(connection, key, value, ttl)
            # Entry numbers are consecutive, so the oldest entry to keep is known without a query.
            query = "delete from entries where folder = ? and name <= ?"
            connection.execute(query, (folder, entry_name(number + 1 - keep)))
            return key

        return await self._do(do, writes=True)

    async def scan(self, folder: str, *, after: str = "", limit: int = SCAN_PAGE) -> list[tuple[str, bytes]]:
        head = f"{folder}/" if folder else ""

        def do(connection: sqlite3.Connection) -> list[tuple[str, bytes]]:
            query = f"select name, value from entries where folder = ? and name > ? and {_LIVE} order by name limit ?"
            found = connection.execute(query, (folder, split(after)[1], self._clock(), limit))
            return [(head + name, value) for name, value in found]

        return await self._do(do)

    async def lease(self, key: str, owner: str, ttl: float) -> int:
        def do(connection: sqlite3.Connection) -> int:
            now = self._clock()
            query = "select owner, expires, number from leases where key = ?"
            held = connection.execute(query, (key,)).fetchone()
            holder, expires, number = ("", 0.0, 0) if held is None else held
            live = expires > now
            if live and holder != owner:
                return 0
            if ttl <= 0:
                connection.execute("delete from leases where key = ?", (key,))
                return 1
            if not live:
                number = max(number + 1, round(now * 1_000_000))
            connection.execute("replace into leases values (?, ?, ?, ?)", (key, owner, now + ttl, number))
            return number

        return await self._do(do, writes=True)

    async def publish(self, topic: str, message: bytes) -> None:
        await self._pubsub.publish(topic, message)

    def subscribe(self, topic: str, take: MessageCallback) -> Callable[[], None]:
        return self._pubsub.subscribe(topic, take)

    async def close(self) -> None:
        await self._pubsub.close()
        writer, self._writer = self._writer, None
        if writer is not None and writer.pid == os.getpid():
            await writer.close()

    # --- internal -------------------------------------------------------------------------------------------

    async def _do(self, do: Callable[[sqlite3.Connection], T], *, writes: bool = False) -> T:
        writer = self._writer
        if writer is None or writer.pid != os.getpid():  # a connection must not be used across a fork
            writer = self._writer = SqliteWriter(self._connect)
        try:
            return await writer.submit(do, writes=writes)
        except StoreFull as error:
            raise StoreFull(self.max_bytes) from error.__cause__

    def _connect(self) -> sqlite3.Connection:
        """Open and check the file. Runs in the writer thread."""
        connection: sqlite3.Connection | None = None
        try:
            connection = sqlite3.connect(
                self.path, timeout=self._busy, isolation_level=None, check_same_thread=False
            )
            _write_ahead(connection, self._busy)
            connection.execute(f"pragma synchronous = {'full' if self._durable else 'normal'}")
            connection.execute(f"pragma max_page_count = {max(self.max_bytes // _PAGE, 16)}")
            _prepare(connection)
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, sqlite3.Error):
                raise store_error(error) from error
            raise
        return connection

    def _value(self, connection: sqlite3.Connection, key: str) -> bytes | None:
        query = f"select value from entries where folder = ? and name = ? and {_LIVE}"
        found = connection.execute(query, (*split(key), self._clock())).fetchone()
        return None if found is None else found[0]

    def _set(self, connection: sqlite3.Connection, key: str, value: bytes, ttl: float | None) -> None:
        now = self._clock()
        self._sweep(connection, now)
        expires = None if ttl is None else now + ttl
        row = (*split(key), value, expires)
        try:
            connection.execute("replace into entries values (?, ?, ?, ?)", row)
        except sqlite3.OperationalError as error:
            if not isinstance(store_error(error), StoreFull) or not connection.in_transaction:
                raise
            self._swept = 0.0
            if not self._sweep(connection, now):
                raise
            connection.execute("replace into entries values (?, ?, ?, ?)", row)

    def _sweep(self, connection: sqlite3.Connection, now: float) -> int:
        """Delete some expired entries, at most once per interval. Return how many were deleted."""
        if abs(now - self._swept) < SQLITE_SWEEP_INTERVAL:
            return 0
        over = "select folder, name from entries where expires <= ? limit ?"
        query = f"delete from entries where (folder, name) in ({over})"
        gone = connection.execute(query, (now, SQLITE_SWEEP_ENTRIES)).rowcount
        connection.execute("delete from leases where expires <= ?", (now,))
        if gone < SQLITE_SWEEP_ENTRIES:
            self._swept = now
        return gone

    def _fence(self, connection: sqlite3.Connection, key: str) -> int:
        query = "select number from leases where key = ? and expires > ?"
        found = connection.execute(query, (key, self._clock())).fetchone()
        return 0 if found is None else found[0]


def _write_ahead(connection: sqlite3.Connection, seconds: float) -> None:
    """Switch to write-ahead logging, with retries.

    SQLite does not wait for the lock here: processes that open a new file at the same time get "database is
    locked".
    """
    last = time.monotonic() + seconds
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError as error:
            if not is_locked(error) or time.monotonic() >= last:
                raise
            time.sleep(SQLITE_RETRY_DELAY)


def _prepare(connection: sqlite3.Connection) -> None:
    """Create the tables in a new file; reject a file of another application or a newer version."""
    connection.execute("begin immediate")
    try:
        version = _pragma(connection, "user_version")
        application = _pragma(connection, "application_id")
        if version > VERSION and application == _APPLICATION:
            raise StoreUnreadable(
                "the SQLite store was written by a newer version of Dovetail; upgrade this process"
            )
        if application != _APPLICATION:
            if connection.execute("select count(*) from sqlite_master").fetchone()[0]:
                raise StoreUnavailable(
                    "the file is a SQLite database of another application; choose another file"
                )
            for statement in _TABLES.split(";")[:-1]:
                connection.execute(statement)
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def _pragma(connection: sqlite3.Connection, name: str) -> Any:
    return connection.execute(f"pragma {name}").fetchone()[0]
