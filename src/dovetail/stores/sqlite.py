"""A store in one file, for all processes of one machine: nothing to install, and it survives `kill -9`.

Write-ahead logging lets processes read while one of them writes. With ``durable=True`` every commit waits for the
disk and survives a power failure too; that costs some milliseconds each, shared by all who wait.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from ..settings import SCAN_PAGE
from .base import StoreFull, StoreUnavailable, StoreUnreadable, Take, entry_name, split
from .pubsub import Bus
from .sqlite_writer import Writer, explained, locked
from .store_limits import (
    SQLITE_BUSY_SECONDS,
    SQLITE_LOOK,
    SQLITE_STORE_BYTES,
    SQLITE_SWEEP,
    SQLITE_SWEEP_SECONDS,
)

T = TypeVar("T")

VERSION: Final = 1
"""Of the tables below; a file of a newer version is left alone."""
_APPLICATION: Final = 0x44_4F_56_45
"""``DOVE``, in the header of the file: it is ours."""
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
        busy_timeout: float = SQLITE_BUSY_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Set the file and its limits. The file is opened later.

        Args:
            path: The file; it is created if it does not exist.
            max_bytes: The largest size of the file, in bytes.
            durable: Whether each write waits until it survives a power failure.
            busy_timeout: Seconds to wait while another process writes.
        """
        self.path = Path(path)
        self.most_bytes = max_bytes
        self.most_entries = sys.maxsize  # bytes alone count
        self._durable = durable
        self._busy = busy_timeout
        self._clock = clock
        self._writer: Writer | None = None
        self._bus = Bus(self.path)
        self._swept = 0.0

    def __repr__(self) -> str:
        return f"SqliteStore({str(self.path)!r})"

    async def open(self) -> None:
        await self._do(lambda connection: None)
        await self._bus.open()

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
            # An entry whose time is over is not there; the sweep takes it.
            query = f"delete from entries where folder = ? and name = ? and {_LIVE}"
            return connection.execute(query, (*split(key), self._clock())).rowcount > 0

        return await self._do(do, writes=True)

    async def append(self, folder: str, value: bytes, *, keep: int, ttl: float | None = None) -> str:
        def do(connection: sqlite3.Connection) -> str:
            query = "select max(name) from entries where folder = ?"
            last = connection.execute(query, (folder,)).fetchone()[0]
            # A log that was empty for a while goes on with the time: nobody may have read that far.
            number = int(last) if last is not None else int(self._clock() * 1000)
            key = f"{folder}/{entry_name(number + 1)}"
            self._set(connection, key, value, ttl)
            # Entries have consecutive numbers: which is too old is known without a look at the others.
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
        await self._bus.publish(topic, message)

    def subscribe(self, topic: str, take: Take) -> Callable[[], None]:
        return self._bus.subscribe(topic, take)

    async def close(self) -> None:
        await self._bus.close()
        writer, self._writer = self._writer, None
        if writer is not None and writer.pid == os.getpid():
            await writer.close()

    # --- inside -------------------------------------------------------------------------------------------

    async def _do(self, do: Callable[[sqlite3.Connection], T], *, writes: bool = False) -> T:
        writer = self._writer
        if writer is None or writer.pid != os.getpid():  # a connection must not be used across a fork
            writer = self._writer = Writer(self._connect)
        try:
            return await writer.submit(do, writes=writes)
        except StoreFull as error:
            raise StoreFull(self.most_bytes) from error.__cause__

    def _connect(self) -> sqlite3.Connection:
        """A connection to a file that is ours and of our version. Runs in the thread that keeps it."""
        connection: sqlite3.Connection | None = None
        try:
            connection = sqlite3.connect(
                self.path, timeout=self._busy, isolation_level=None, check_same_thread=False
            )
            _write_ahead(connection, self._busy)
            connection.execute(f"pragma synchronous = {'full' if self._durable else 'normal'}")
            connection.execute(f"pragma max_page_count = {max(self.most_bytes // _PAGE, 16)}")
            _prepare(connection)
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, sqlite3.Error):
                raise explained(error) from error
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
            if not isinstance(explained(error), StoreFull) or not connection.in_transaction:
                raise
            self._swept = 0.0
            if not self._sweep(connection, now):
                raise
            connection.execute("replace into entries values (?, ?, ?, ?)", row)

    def _sweep(self, connection: sqlite3.Connection, now: float) -> int:
        """Now and then take away what is over, some at a time; how many went."""
        if abs(now - self._swept) < SQLITE_SWEEP_SECONDS:
            return 0
        over = "select folder, name from entries where expires <= ? limit ?"
        query = f"delete from entries where (folder, name) in ({over})"
        gone = connection.execute(query, (now, SQLITE_SWEEP)).rowcount
        connection.execute("delete from leases where expires <= ?", (now,))
        if gone < SQLITE_SWEEP:
            self._swept = now
        return gone

    def _fence(self, connection: sqlite3.Connection, key: str) -> int:
        query = "select number from leases where key = ? and expires > ?"
        found = connection.execute(query, (key, self._clock())).fetchone()
        return 0 if found is None else found[0]


def _write_ahead(connection: sqlite3.Connection, seconds: float) -> None:
    """Keep a log of what is written. SQLite does not wait for the lock here: of several processes that begin with a new
    file together some would be told that it is locked."""
    last = time.monotonic() + seconds
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError as error:
            if not locked(error) or time.monotonic() >= last:
                raise
            time.sleep(SQLITE_LOOK)


def _prepare(connection: sqlite3.Connection) -> None:
    """Make the tables in a new file; refuse one that is not ours."""
    connection.execute("begin immediate")
    try:
        version = _pragma(connection, "user_version")
        application = _pragma(connection, "application_id")
        if version > VERSION and application == _APPLICATION:
            raise StoreUnreadable("the store was written by a newer version")
        if application != _APPLICATION:
            if connection.execute("select count(*) from sqlite_master").fetchone()[0]:
                raise StoreUnavailable("the file is a database of something else")
            for statement in _TABLES.split(";")[:-1]:
                connection.execute(statement)
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def _pragma(connection: sqlite3.Connection, name: str) -> Any:
    return connection.execute(f"pragma {name}").fetchone()[0]
