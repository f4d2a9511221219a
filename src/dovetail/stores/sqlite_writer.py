"""One thread that owns one SQLite connection; whatever waits for it is done in one transaction.

A commit costs the same for one change and for a hundred, so callers never wait for more than two of them. The event
loop never touches the file: a slow disk or another process that holds the lock stops nobody who needs no state.

SQLite loses writes where a connection is open while its process forks, even if the child never touches it. So all
connections are closed before a fork; each is opened again with the next work.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar
from weakref import WeakSet

from .base import StoreError, StoreFull, StoreUnavailable, StoreUnreadable
from .store_limits import STORE_BATCH

T = TypeVar("T")


class _Work(NamedTuple):
    do: Callable[[sqlite3.Connection], Any]
    writes: bool
    future: asyncio.Future[Any]


_writers: WeakSet[Writer] = WeakSet()
_forking: list[Writer] = []


def _before_fork() -> None:
    _forking[:] = _writers
    for writer in _forking:
        writer.before_fork()


def _after_fork() -> None:
    while _forking:
        _forking.pop().after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


class Writer:
    """Starts with its first work. ``connect`` makes the connection, in the thread."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self.pid = os.getpid()
        self._connect = connect
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._connection: sqlite3.Connection | None = None
        self._busy = threading.Lock()
        """Held while the connection is in use."""
        _writers.add(self)
        self._thread = threading.Thread(target=self._run, name="dovetail-sqlite", daemon=True)
        self._thread.start()

    def submit(self, do: Callable[[sqlite3.Connection], T], *, writes: bool) -> asyncio.Future[T]:
        """Have ``do`` done; the future has its result once it is committed."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.put(_Work(do, writes, future))
        return future

    async def close(self) -> None:
        """Finish what was submitted and let go of the file."""
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        open_ = True
        while open_:
            batch = [self._queue.get()]
            while len(batch) < STORE_BATCH and not self._queue.empty():
                batch.append(self._queue.get())
            work = [item for item in batch if item is not None]
            open_ = len(work) == len(batch)
            if work:
                with self._busy:
                    outcomes = self._do(work)
                self._answer(work, outcomes)
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

    def _do(self, work: list[_Work]) -> list[Any]:
        """The outcome of each piece, exceptions included."""
        try:
            return self._commit(work)
        except sqlite3.Error as error:
            if len(work) == 1:
                return [explained(error)]
            if locked(error):
                return self._locked_out(work, explained(error))
        # One of them failed and took the others with it: each alone, then.
        return [outcome for item in work for outcome in self._do([item])]

    def _locked_out(self, work: list[_Work], error: StoreError) -> list[Any]:
        """Another process holds the lock: nobody waits for it once more, and who only reads needs none."""
        reads = [item for item in work if not item.writes]
        read = iter(self._do(reads) if len(reads) < len(work) else [error] * len(reads))
        return [error if item.writes else next(read) for item in work]

    def _commit(self, work: list[_Work]) -> list[Any]:
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
    def _answer(work: list[_Work], outcomes: list[Any]) -> None:
        loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
        for item, outcome in zip(work, outcomes, strict=True):
            loops.setdefault(item.future.get_loop(), []).append((item.future, outcome))
        for loop, answers in loops.items():
            try:
                loop.call_soon_threadsafe(_settle, answers)
            except RuntimeError:
                pass  # the loop has ended, and with it whoever asked


def _outcome(item: _Work, connection: sqlite3.Connection) -> Any:
    try:
        return item.do(connection)
    except StoreError as error:
        return error


def _settle(answers: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, outcome in answers:
        if future.done():
            continue
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


def _code(error: sqlite3.Error) -> int:
    # The last byte of an extended code is the plain one.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def locked(error: sqlite3.Error) -> bool:
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def explained(error: sqlite3.Error) -> StoreError:
    """What ``error`` means to whoever uses the store; the error itself is the cause."""
    code = _code(error)
    if code == sqlite3.SQLITE_FULL:
        found: StoreError = StoreFull()
    elif code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT):
        found = StoreUnreadable("what is in the store is damaged")
    elif locked(error):
        found = StoreUnavailable("the store is locked by another process")
    else:
        found = StoreUnavailable("the store cannot be read or written")
    found.__cause__ = error
    return found
