"""`Lifecycle`: starts and stops a server, and has its store.

The lifespan of the author is entered first and exited last. In between, the registered parts start in order and stop in
reverse order.
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
"""A function that returns a context manager, entered at start and exited at stop."""


class Lifespan:
    """The author's context manager, active between `start` and `stop`.

    A dedicated task enters and exits it, so that it may contain task groups and cancel scopes although a request
    triggers the start and a signal triggers the stop.
    """

    def __init__(self, enter: Enter) -> None:
        self.enter = enter
        self._task: asyncio.Task[None] | None = None
        self._started: asyncio.Future[None] | None = None
        self._stop: asyncio.Event | None = None
        self.value: Any = None
        self.running = False

    async def start(self) -> None:
        """Enter the context manager, or wait until another caller has. Its exceptions are raised here."""
        if self._task is None or self._task.done() or self._task.get_loop() is not asyncio.get_running_loop():
            self._stop = asyncio.Event()
            self._started = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._hold(self._started, self._stop), name="dovetail-lifespan")
        started = self._started
        assert started is not None
        await asyncio.shield(started)

    async def stop(self) -> None:
        """Exit the context manager and wait for it. Its exceptions are raised here."""
        task, stop = self._task, self._stop
        if task is None or stop is None:
            return
        self._task = None
        if task.get_loop() is not asyncio.get_running_loop():
            return  # the event loop of the task was closed
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
            # The callers of start get the exception; the task itself must not report it again.
            started.set_exception(error)
        finally:
            self.running = False
            self.value = None


def composed(lifespans: Sequence[Callable[[Any], AbstractAsyncContextManager[Any]]], server: Any) -> Enter:
    """Combine several lifespans: entered in order, exited in reverse order, also when one of them fails.

    If all yield mappings, they are merged into one dict, later ones win; otherwise the value is a list of all values.
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
    """Starts and stops the lifespan, the parts, the workers and the store of one server."""

    def __init__(
        self, limits: Limits, clock: Callable[[], float], lifespan: Enter | None, store: Store | None = None
    ) -> None:
        self.runner = HandlerRunner(limits)
        """Runs handlers; has the worker threads and processes."""
        self.lifespan = None if lifespan is None else Lifespan(lifespan)
        self.store = store
        """The store of the server; None without one."""
        self._parent: Lifecycle | None = None
        self.inherited_store: Store | None = None
        """The store of the parent server in which this server is mounted."""
        self.event_history: Any = None
        """Where the events of legacy HTTP sessions are stored, if not in the store (`EventHistory`)."""
        self.store_listeners: list[Callable[[Store, bool], None]] = []
        """Called with a store that is set after construction, and whether to store the seal keys in it."""
        self._clock = clock
        self._parts: list[_Part] = []
        self._before_store_closes: list[Callable[[], Awaitable[None]]] = []

    def add(
        self,
        *,
        start: Callable[[], Awaitable[None] | None] | None = None,
        stop: Callable[[], Awaitable[None] | None] | None = None,
    ) -> None:
        """Register a part that starts after all parts registered before, and stops before them."""
        self._parts.append(_Part(start, stop))

    def wrap_lifespan(self, wrap: Callable[[Enter | None], Enter]) -> None:
        """Replace the lifespan by a wrapper around it."""
        self.lifespan = Lifespan(wrap(None if self.lifespan is None else self.lifespan.enter))

    @property
    def lifespan_value(self) -> Any:
        """The value that the lifespan yielded; None while it is not running."""
        return None if self.lifespan is None else self.lifespan.value

    @cached_property
    def state_store(self) -> Store:
        """The store or, without one, a memory store for the state of handlers."""
        return store_choice.memory(self._clock) if self.store is None else self.store

    def use_store(self, store: Store, *, keep_keys: bool = False) -> None:
        """Use ``store``, as if it had been an option of the server. Call it before the server starts.

        With ``keep_keys`` the seal keys are stored in it too.
        """
        self.store = store
        for listener in self.store_listeners:
            listener(store, keep_keys)

    def inherit_store(self, parent: Lifecycle) -> None:
        """Use the store of the parent server in which this server is mounted."""
        self.inherited_store = parent.inherited_store if parent.store is None else parent.store
        self._parent = parent

    @property
    def page_store(self) -> Store:
        """The store for links that this server hands out: that of the outermost server, whose HTTP routes answer."""
        return self.state_store if self._parent is None else self._parent.page_store

    def before_store_closes(self, end: Callable[[], Awaitable[None]]) -> None:
        """Register a function that is called after all parts have stopped and before the store is closed."""
        self._before_store_closes.append(end)

    async def leave_store(self) -> None:
        """Call the functions registered with `before_store_closes`."""
        for end in self._before_store_closes:
            await end()

    async def start(self) -> None:
        """Enter the lifespan once and start the parts. A second caller waits for the first."""
        if self.lifespan is not None:
            await self.lifespan.start()
        for part in self._parts:
            if part.start is not None:
                await _done(part.start())

    async def stop(self) -> None:
        """Stop the parts and the workers, then exit the lifespan. The server can be started again."""
        for part in reversed(self._parts):
            if part.stop is not None:
                await _done(part.stop())
        if self.lifespan is not None:
            await self.lifespan.stop()


async def _done(work: Awaitable[None] | None) -> None:
    if work is not None:
        await work
