"""`SqliteWriter`: one thread that owns one SQLite connection and commits queued work in batches.

A commit costs the same for one change as for a hundred, so a caller waits for at most two commits. The event
loop never accesses the file: a slow disk or a locked file does not block other requests.

SQLite loses writes if a connection is open during a fork, even if the child does not use it. All connections
are therefore closed before a fork and reopened with the next work item.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakSet

from .base import StoreError, StoreFull, StoreUnavailable, StoreUnreadable

SQLITE_MAX_BATCH: Final = 256
"""Work items in one transaction."""


T = TypeVar("T")


class _WorkItem(NamedTuple):
    do: Callable[[sqlite3.Connection], Any]
    writes: bool
    future: asyncio.Future[Any]


_writers: WeakSet[SqliteWriter] = WeakSet()
_forking: list[SqliteWriter] = []


def _before_fork() -> None:
    _forking[:] = _writers
    for writer in _forking:
        writer.before_fork()


def _after_fork() -> None:
    while _forking:
        _forking.pop().after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


class SqliteWriter:
    """A worker thread that starts with its first work item. ``connect`` runs in the thread."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self.pid = os.getpid()
        self._connect = connect
        self._queue: queue.SimpleQueue[_WorkItem | None] = queue.SimpleQueue()
        self._connection: sqlite3.Connection | None = None
        self._busy = threading.Lock()
        """Held while the connection is in use."""
        _writers.add(self)
        self._thread = threading.Thread(target=self._run, name="dovetail-sqlite", daemon=True)
        self._thread.start()

    def submit(self, do: Callable[[sqlite3.Connection], T], *, writes: bool) -> asyncio.Future[T]:
        """Queue ``do``. The future gets its result after the commit."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.put(_WorkItem(do, writes, future))
        return future

    async def close(self) -> None:
        """Finish queued work and close the file."""
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        open_ = True
        while open_:
            batch = [self._queue.get()]
            while len(batch) < SQLITE_MAX_BATCH and not self._queue.empty():
                batch.append(self._queue.get())
            work = [item for item in batch if item is not None]
            open_ = len(work) == len(batch)
            if work:
                with self._busy:
                    outcomes = self._do(work)
                self._deliver(work, outcomes)
        with self._busy:
            self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def before_fork(self) -> None:
        self._busy.acquire()
        self._disconnect()

    def after_fork(self) -> None:
        self._busy.release()

    def _do(self, work: list[_WorkItem]) -> list[Any]:
        """Run the work items in one transaction and return their results or exceptions."""
        try:
            return self._commit(work)
        except sqlite3.Error as error:
            if len(work) == 1:
                return [store_error(error)]
            if is_locked(error):
                return self._fail_locked(work, store_error(error))
        # One item failed and rolled back the others: run each in its own transaction.
        return [outcome for item in work for outcome in self._do([item])]

    def _fail_locked(self, work: list[_WorkItem], error: StoreError) -> list[Any]:
        """Fail the writes, because another process holds the lock. Reads need no lock and run."""
        reads = [item for item in work if not item.writes]
        read = iter(self._do(reads) if len(reads) < len(work) else [error] * len(reads))
        return [error if item.writes else next(read) for item in work]

    def _commit(self, work: list[_WorkItem]) -> list[Any]:
        connection = self._connection
        if connection is None:
            try:
                connection = self._connection = self._connect()
            except StoreError as error:
                return [error] * len(work)
        writes = any(item.writes for item in work)
        try:
            connection.execute("begin immediate" if writes else "begin")
            outcomes = [_outcome(item, connection) for item in work]
            connection.execute("commit")
        except BaseException:
            if connection.in_transaction:
                connection.execute("rollback")
            raise
        return outcomes

    @staticmethod
    def _deliver(work: list[_WorkItem], outcomes: list[Any]) -> None:
        loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
        for item, outcome in zip(work, outcomes, strict=True):
            loops.setdefault(item.future.get_loop(), []).append((item.future, outcome))
        for loop, answers in loops.items():
            try:
                loop.call_soon_threadsafe(_resolve, answers)
            except RuntimeError:
                pass  # the event loop and its waiters have ended


def _outcome(item: _WorkItem, connection: sqlite3.Connection) -> Any:
    try:
        return item.do(connection)
    except StoreError as error:
        return error


def _resolve(answers: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, outcome in answers:
        if future.done():
            continue
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


def _code(error: sqlite3.Error) -> int:
    # The last byte of an extended error code is the primary code.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def is_locked(error: sqlite3.Error) -> bool:
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def store_error(error: sqlite3.Error) -> StoreError:
    """Return the `StoreError` for ``error``, with ``error`` as its cause."""
    code = _code(error)
    if code == sqlite3.SQLITE_FULL:
        found: StoreError = StoreFull()
    elif code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT):
        found = StoreUnreadable("the SQLite store is damaged or no database; restore it from a backup")
    elif is_locked(error):
        found = StoreUnavailable("the SQLite store is locked by another process; try again")
    else:
        found = StoreUnavailable(
            "the SQLite store cannot be read or written; check the file and its permissions"
        )
    found.__cause__ = error
    return found
