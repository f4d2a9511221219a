"""Tasks that run in processes of their own: ``dovetail worker`` runs them, whoever took the calls hands them over.

While at least one such process is alive, a task that begins is kept as ``pending`` and its id, nothing else, goes
through a queue; where there is none, tasks run where their calls arrived. In Redis the queue is pydocket's, which
delivers an id again when the worker that had it is dead; with any other store it is the store's news. Who may run a
task is decided by its lease alone, so an id that is delivered twice or lost does no harm: workers look for tasks, too.
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
    """The workers of one server, as every process of it sees them."""

    def __init__(self, store: Store, server: str, me: str) -> None:
        self._store = store
        name = hashlib.sha256(server.encode()).hexdigest()[:16]
        self._folder = f"task-workers/{name}"
        self._key = f"{self._folder}/{me}"
        self._queue = (
            DocketQueue(store, f"tasks:{name}") if isinstance(store, RedisStore) else NewsQueue(store, name)
        )
        self.present = False
        """Whether there are workers."""
        self.working = False
        """Whether this process is one of them."""
        self.deserted = asyncio.Event()
        """The last worker has gone: what was handed over is for whoever is left."""
        self._looking: asyncio.Task[None] | None = None
        self._stop: Callable[[], None] | None = None

    def _look_again(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        try:
            await self.look()
        except StoreError as error:
            log.info("whether there are workers is not known: %s", error.message)

    async def look(self) -> None:
        """Find out whether there are workers; one of them says so of itself."""
        if self._stop is None:
            self._stop = self._store.subscribe(self._folder, lambda _: self._look_again())
        if self.working:
            await self._store.put(self._key, b"", ttl=LEASE_LIFETIME)
        before, self.present = self.present, bool(await self._store.scan(self._folder, limit=1))
        if before and not self.present:
            self.deserted.set()

    async def add(self, id: str) -> None:
        """Hand a task over; a queue that cannot take it is made up for by the workers' own looks."""
        try:
            await self._queue.add(id)
        except StoreError as error:
            log.warning("task %s waits until a worker finds it: %s", id, error.message)

    async def work(self, run: Run, at_once: int) -> None:
        """Run what is handed over, ``at_once`` so many, until cancelled."""
        serving = asyncio.create_task(self._queue.work(run, at_once))
        await asyncio.sleep(0)  # it listens before anybody hands it anything
        self.working = True
        try:
            await self.look()
            await self._store.publish(self._folder, b"")
            await serving
        finally:
            self.working = False
            serving.cancel()
            await self._store.delete(self._key)
            await self._store.publish(self._folder, b"")

    async def close(self) -> None:
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()
        if self._looking is not None:
            self._looking.cancel()
        await self._queue.close()


class NewsQueue:
    """Ids as news of the store: whoever listens gets them all, and their leases say who runs which."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._topic = f"task-queue/{name}"

    async def add(self, id: str) -> None:
        await self._store.publish(self._topic, id.encode())

    async def work(self, run: Run, at_once: int) -> None:
        running: set[asyncio.Future[None]] = set()

        def take(message: bytes) -> None:
            if len(running) < at_once:  # what is left is found by a look
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
    """Ids on a docket in the store's Redis. What lies there is pickled: see SECURITY.md."""

    def __init__(self, store: RedisStore, name: str) -> None:
        self._url = store.url
        self._name = store.prefix + name
        self._docket: Any = None
        self._module: Any = None
        self._opening = asyncio.Lock()

    async def _open(self) -> Any:
        async with self._opening:
            if self._docket is None:
                # Importing it takes a second: not on the loop.
                module = self._module = await asyncio.to_thread(_docket)
                docket = module.Docket(
                    self._name, self._url, execution_ttl=timedelta(seconds=TASK_QUEUE_LIFETIME)
                )
                docket.register(_unwanted, names=[_FUNCTION])
                try:
                    await docket.__aenter__()
                except OSError as error:
                    raise StoreUnavailable("the queue of tasks cannot be reached") from error
                self._docket = docket
        return self._docket

    async def add(self, id: str) -> None:
        docket = await self._open()
        try:
            await docket.add(_FUNCTION, key=id)(id)
        except Exception as error:  # redis-py's own
            raise StoreUnavailable("the queue of tasks does not answer") from error

    async def work(self, run: Run, at_once: int) -> None:
        docket = await self._open()

        async def wanted(id: str) -> None:
            await run(id)

        docket.register(wanted, names=[_FUNCTION])
        again = timedelta(seconds=TASK_REDELIVERY_DELAY)
        async with self._module.Worker(docket, concurrency=at_once, redelivery_timeout=again) as worker:
            await worker.run_forever()

    async def close(self) -> None:
        docket, self._docket = self._docket, None
        if docket is not None:
            await docket.__aexit__(None, None, None)


async def _unwanted(id: str) -> None:
    """What stands for the work where it is only handed over."""


def _docket() -> Any:
    try:
        return importlib.import_module("docket")
    except ImportError:
        raise missing("docket", "spreading tasks over Redis") from None
