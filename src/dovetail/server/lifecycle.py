"""`Lifecycle`: how a server starts and stops, and what it keeps state in.

The lifespan of the author is entered first and left last. Between the two, every part that was added is started in
order and stopped in reverse order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import cached_property
from typing import Any

from msgspec import Struct

from ..settings import Limits
from ..stores.base import Store
from . import store_choice
from .execution import HandlerRunner

Enter = Callable[[], AbstractAsyncContextManager[Any]]
Life = Callable[[Any], AbstractAsyncContextManager[Any]]
"""Takes the server and returns a context manager that is entered when it starts and left when it stops."""


class Lifespan:
    """The author's context manager, held open between `start` and `stop`.

    One task of its own enters and leaves it, so that it may hold task groups and cancel scopes although the start comes
    from a request and the stop from a signal.
    """

    def __init__(self, enter: Enter) -> None:
        self.enter = enter
        self._task: asyncio.Task[None] | None = None
        self._started: asyncio.Future[None] | None = None
        self._stop: asyncio.Event | None = None
        self.value: Any = None
        self.running = False

    async def start(self) -> None:
        """Enter, or wait for whoever is entering. What the manager raises is raised here."""
        if self._task is None or self._task.done() or self._task.get_loop() is not asyncio.get_running_loop():
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
        if task.get_loop() is not asyncio.get_running_loop():
            return  # that event loop was closed, and the task with it
        stop.set()
        await task

    async def _hold(self, started: asyncio.Future[None], stop: asyncio.Event) -> None:
        try:
            async with self.enter() as self.value:
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


def composed(lifespans: Sequence[Callable[[Any], AbstractAsyncContextManager[Any]]], server: Any) -> Enter:
    """Several lifespans as one: entered in order, left in reverse, each that was entered whatever becomes of the rest.

    Mappings that they yield become one dict, the later ones win; anything else makes a list of what each yielded.
    """

    @asynccontextmanager
    async def enter() -> AsyncGenerator[Any, None]:
        async with AsyncExitStack() as stack:
            values: list[Any] = [await stack.enter_async_context(lifespan(server)) for lifespan in lifespans]
            if all(value is None or isinstance(value, Mapping) for value in values):
                merged: dict[str, Any] = {}
                for value in values:
                    merged.update(value or {})
                yield merged
            else:
                yield values

    return enter


class _Part(Struct, frozen=True):
    start: Callable[[], Awaitable[None] | None] | None
    stop: Callable[[], Awaitable[None] | None] | None


class Lifecycle:
    """Starts and stops one server: its lifespan, its parts, its workers, its store."""

    def __init__(
        self, limits: Limits, clock: Callable[[], float], lifespan: Enter | None, store: Store | None = None
    ) -> None:
        self.runner = HandlerRunner(limits)
        """Runs handlers: the worker threads and processes."""
        self.lifespan = None if lifespan is None else Lifespan(lifespan)
        self.store = store
        """Where the server keeps its state; None without a store."""
        self.inherited_store: Store | None = None
        """The store of the server that this one is mounted in."""
        self.event_history: Any = None
        """Where the events of legacy HTTP sessions are stored instead of the store (`EventHistory`)."""
        self.store_listeners: list[Callable[[Store, bool], None]] = []
        """Called with a store that was given after the server was made, and whether to keep the keys in it."""
        self._clock = clock
        self._parts: list[_Part] = []
        self._before_store_closes: list[Callable[[], Awaitable[None]]] = []

    def add(
        self,
        *,
        start: Callable[[], Awaitable[None] | None] | None = None,
        stop: Callable[[], Awaitable[None] | None] | None = None,
    ) -> None:
        """Start a part of the server with it, after all that were added before, and stop it in reverse order."""
        self._parts.append(_Part(start, stop))

    def wrap_lifespan(self, wrap: Callable[[Enter | None], Enter]) -> None:
        """Put something around the lifespan."""
        self.lifespan = Lifespan(wrap(None if self.lifespan is None else self.lifespan.enter))

    @property
    def lifespan_value(self) -> Any:
        """What the lifespan yielded; None while it is not running."""
        return None if self.lifespan is None else self.lifespan.value

    @cached_property
    def state_store(self) -> Store:
        """The store or, without one, a store in memory for what handlers keep."""
        return store_choice.memory(self._clock) if self.store is None else self.store

    def use_store(self, store: Store, *, keep_keys: bool = False) -> None:
        """Keep state in ``store``, as if it had been an option of the server. Call it before the server starts.

        With ``keep_keys`` the keys that seal are kept in the store too.
        """
        self.store = store
        for listener in self.store_listeners:
            listener(store, keep_keys)

    def inherit_store(self, parent: Lifecycle) -> None:
        """Note the store of the server that this one is mounted in."""
        self.inherited_store = parent.inherited_store if parent.store is None else parent.store

    def before_store_closes(self, end: Callable[[], Awaitable[None]]) -> None:
        """Call ``end`` after everything has stopped and before the store is closed."""
        self._before_store_closes.append(end)

    async def leave_store(self) -> None:
        """Call what has to be called before the store is closed."""
        for end in self._before_store_closes:
            await end()

    async def start(self) -> None:
        """Run the lifespan up to its ``yield``, once, and start the parts. A second caller waits for the first."""
        if self.lifespan is not None:
            await self.lifespan.start()
        for part in self._parts:
            if part.start is not None:
                await _done(part.start())

    async def stop(self) -> None:
        """Stop the parts and the workers, then leave the lifespan; `start` may follow again."""
        for part in reversed(self._parts):
            if part.stop is not None:
                await _done(part.stop())
        if self.lifespan is not None:
            await self.lifespan.stop()


async def _done(work: Awaitable[None] | None) -> None:
    if work is not None:
        await work
