"""Dispatch tasks to ``dovetail worker`` processes.

While a worker process is alive, a new task is stored as ``pending`` and its id goes through a queue. Without
workers, tasks run in the process that received the call. With Redis the queue is pydocket's, which redelivers
ids of dead workers; with other stores it is publish/subscribe. The lease of a task decides which process runs
it, so duplicate and lost ids are harmless: workers also scan for pending tasks.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final

from ..extras import missing
from ..stores.base import Store, StoreError, StoreUnavailable
from ..stores.redis import RedisStore
from .process_registry import LEASE_LIFETIME

TASK_REDELIVERY_DELAY: Final = 1.5 * LEASE_LIFETIME
"""Delay before the task of a dead worker is delivered again. Its lease has expired by then."""
TASK_QUEUE_LIFETIME: Final = 60.0
"""How long a queue remembers a delivered task."""


log = logging.getLogger("dovetail.server")

Run = Callable[[str], Awaitable[None]]
_FUNCTION: Final = "dovetail_task"


class TaskDispatch:
    """The worker processes of one server, as seen by one process."""

    def __init__(self, store: Store, server: str, me: str) -> None:
        self._store = store
        name = hashlib.sha256(server.encode()).hexdigest()[:16]
        self._folder = f"task-workers/{name}"
        self._key = f"{self._folder}/{me}"
        self._queue = (
            DocketQueue(store, f"tasks:{name}") if isinstance(store, RedisStore) else PubSubQueue(store, name)
        )
        self.has_workers = False
        """Whether there are worker processes."""
        self.is_worker = False
        """Whether this process is a worker."""
        self.workers_gone = asyncio.Event()
        """Set when the last worker has gone: other processes then run the dispatched tasks."""
        self._refreshing: asyncio.Task[None] | None = None
        self._stop: Callable[[], None] | None = None

    def _schedule_refresh(self) -> None:
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh_logged())

    async def _refresh_logged(self) -> None:
        try:
            await self.refresh()
        except StoreError as error:
            log.info("worker lookup failed: %s", error.message)

    async def refresh(self) -> None:
        """Check whether there are workers; a worker also renews its own entry."""
        if self._stop is None:
            self._stop = self._store.subscribe(self._folder, lambda _: self._schedule_refresh())
        if self.is_worker:
            await self._store.put(self._key, b"", ttl=LEASE_LIFETIME)
        before, self.has_workers = self.has_workers, bool(await self._store.scan(self._folder, limit=1))
        if before and not self.has_workers:
            self.workers_gone.set()

    async def add(self, id: str) -> None:
        """Queue a task id. If that fails, the scan of the workers finds the task."""
        try:
            await self._queue.add(id)
        except StoreError as error:
            log.warning("task not queued, waiting for the worker scan task=%s: %s", id, error.message)

    async def work(self, run: Run, max_concurrent: int) -> None:
        """Run up to ``max_concurrent`` dispatched tasks at once, until cancelled."""
        serving = asyncio.create_task(self._queue.work(run, max_concurrent))
        await asyncio.sleep(0)  # subscribe before tasks are dispatched
        self.is_worker = True
        try:
            await self.refresh()
            await self._store.publish(self._folder, b"")
            await serving
        finally:
            self.is_worker = False
            serving.cancel()
            await self._store.delete(self._key)
            await self._store.publish(self._folder, b"")

    async def close(self) -> None:
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()
        if self._refreshing is not None:
            self._refreshing.cancel()
        await self._queue.close()


class PubSubQueue:
    """A queue of task ids over publish/subscribe: all workers get each id, and its lease decides who runs it."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._topic = f"task-queue/{name}"

    async def add(self, id: str) -> None:
        await self._store.publish(self._topic, id.encode())

    async def work(self, run: Run, max_concurrent: int) -> None:
        running: set[asyncio.Future[None]] = set()

        def take(message: bytes) -> None:
            if len(running) < max_concurrent:  # the scan finds the others
                task = asyncio.ensure_future(run(message.decode()))
                running.add(task)
                task.add_done_callback(running.discard)

        stop = self._store.subscribe(self._topic, take)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            stop()
            for task in running:
                task.cancel()

    async def close(self) -> None:
        pass


class DocketQueue:
    """A queue of task ids in Redis, by pydocket. Its content is pickled: see SECURITY.md."""

    def __init__(self, store: RedisStore, name: str) -> None:
        self._url = store.url
        self._name = store.prefix + name
        self._docket: Any = None
        self._module: Any = None
        self._opening = asyncio.Lock()

    async def _open(self) -> Any:
        async with self._opening:
            if self._docket is None:
                # The import takes a second: run it in a thread.
                module = self._module = await asyncio.to_thread(_docket)
                docket = module.Docket(
                    self._name, self._url, execution_ttl=timedelta(seconds=TASK_QUEUE_LIFETIME)
                )
                docket.register(_not_run_here, names=[_FUNCTION])
                try:
                    await docket.__aenter__()
                except OSError as error:
                    raise StoreUnavailable("the task queue in Redis cannot be reached") from error
                self._docket = docket
        return self._docket

    async def add(self, id: str) -> None:
        docket = await self._open()
        try:
            await docket.add(_FUNCTION, key=id)(id)
        except Exception as error:  # exceptions of redis-py
            raise StoreUnavailable("the task queue in Redis does not respond") from error

    async def work(self, run: Run, max_concurrent: int) -> None:
        docket = await self._open()

        async def wanted(id: str) -> None:
            await run(id)

        docket.register(wanted, names=[_FUNCTION])
        again = timedelta(seconds=TASK_REDELIVERY_DELAY)
        async with self._module.Worker(
            docket, concurrency=max_concurrent, redelivery_timeout=again
        ) as worker:
            await worker.run_forever()

    async def close(self) -> None:
        docket, self._docket = self._docket, None
        if docket is not None:
            await docket.__aexit__(None, None, None)


async def _not_run_here(id: str) -> None:
    """Represents the task function in processes that only dispatch."""


def _docket() -> Any:
    try:
        return importlib.import_module("docket")
    except ImportError:
        raise missing("docket", "dispatching tasks through Redis") from None
