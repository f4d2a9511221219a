"""The server's own start and end: run once, whoever comes first, wherever it is stopped.

The author's context manager is entered and left by one task of its own, so that it may hold task groups and
cancel scopes although the start comes from a request and the stop from a signal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any


class Lifespan:
    """Holds ``manager(server)`` open between `start` and `stop`."""

    def __init__(self, enter: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._enter = enter
        self._task: asyncio.Task[None] | None = None
        self._started: asyncio.Future[None] | None = None
        self._stop: asyncio.Event | None = None
        self.value: Any = None
        self.running = False

    async def start(self) -> None:
        """Enter, or wait for whoever is entering. What the manager raises is raised here."""
        if self._task is None or self._task.done():
            self._stop = asyncio.Event()
            self._started = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._hold(self._started, self._stop), name="dovetail-lifespan")
        started = self._started
        assert started is not None
        await asyncio.shield(started)

    async def stop(self) -> None:
        """Leave, and wait until that is done. Whatever the manager raises on its way out is raised here."""
        task, stop = self._task, self._stop
        if task is None or stop is None:
            return
        self._task = None
        stop.set()
        await task

    async def _hold(self, started: asyncio.Future[None], stop: asyncio.Event) -> None:
        try:
            async with self._enter() as self.value:
                self.running = True
                started.set_result(None)
                await stop.wait()
        except BaseException as error:
            if started.done():
                raise
            if isinstance(error, asyncio.CancelledError):
                started.cancel()
                raise
            # Reported to whoever waits for the start; the task itself has nothing more to say.
            started.set_exception(error)
        finally:
            self.running = False
            self.value = None
