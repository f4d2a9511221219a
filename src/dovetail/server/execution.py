"""How a handler is run, and how a server begins and ends.

A handler runs on the event loop, in a worker thread or in a process; with a timeout, with a limit. The way is put
together once, when the handler is registered: a guard that was not asked for is absent, so an async tool without
options is called directly.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Self, cast
from weakref import WeakSet

from ..core.channel import Session
from ..core.phases import SERVING
from ..drivers.middleware_chain import Middleware
from ..drivers.semaphore import QueuedSemaphore
from ..drivers.thread_pool import ThreadPool
from ..errors import RETRY_AFTER_MS, DovetailError, ProtocolError, Refusal, RegistrationError
from ..middleware.health import Health, MonitoredServer
from ..settings import Limits

if TYPE_CHECKING:
    from ..drivers.process_pool import ProcessPool
    from .composition import Composition
    from .resource_watcher import Watches
    from .server import Server
    from .signatures.parameters import Signature
    from .tasks.task_methods import TaskMethods

HANDLER_QUEUE: Final = 100
"""Calls that wait for a handler with a ``limit``, unless its ``queue`` says otherwise; one more is refused."""

Enter = Callable[[], AbstractAsyncContextManager[Any]]
Run = Literal["thread", "inline", "process"]
Runnable = Callable[..., Awaitable[Any]]


class HandlerTimeout(DovetailError):
    """A handler ran out of the time its registration gives it."""

    kind = "tool_timeout"

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what} did not finish within its timeout of {seconds:g} s")
        self.seconds = seconds


class HandlerTime:
    """The time a handler has left. It does not run while the handler waits for the client's answer.

    On 2026-07-28 nothing runs in that time either, so a timeout means the same in both eras.
    """

    __slots__ = ("_left", "_outer", "_pauses", "limit", "over")

    def __init__(self, seconds: float, outer: HandlerTime | None = None) -> None:
        self._outer = outer
        self.over = False
        """Nothing is limited any more; work that was begun meanwhile may still look at it."""
        self.limit = asyncio.timeout(seconds)
        self._left = seconds
        self._pauses = 0

    def pause(self) -> None:
        if self._outer is not None:
            self._outer.pause()
        self._pauses += 1
        when = None if self.over else self.limit.when()
        if self._pauses == 1 and when is not None:
            self._left = when - asyncio.get_running_loop().time()
            self.limit.reschedule(None)

    def resume(self) -> None:
        if self._outer is not None:
            self._outer.resume()
        self._pauses -= 1
        if not self._pauses and not self.over and not self.limit.expired():
            self.limit.reschedule(asyncio.get_running_loop().time() + self._left)


handler_time: ContextVar[HandlerTime | None] = ContextVar("dovetail_handler_time", default=None)
"""The innermost time that runs here."""


def stop_clock() -> HandlerTime | None:
    """The handler that runs here waits for somebody else: its own time stands still until it is resumed."""
    time = handler_time.get()
    if time is not None:
        time.pause()
    return time


class HandlerRunner:
    """The workers of one server. Threads and processes start when the first handler needs one."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._semaphores: WeakSet[QueuedSemaphore] = WeakSet()
        self._threads: ThreadPool | None = None
        self._processes: ProcessPool | None = None

    def prepare(
        self, function: Signature, what: str, options: Mapping[str, Any], timeout: float | None
    ) -> Runnable:
        """The coroutine function that runs ``function`` with exactly the guards its registration asked for.

        Raises:
            RegistrationError: it cannot run in a process.
        """
        timeout, limit = options.get("timeout", timeout), options.get("limit")
        call = self._place(function, what, options.get("run", "thread"))
        if timeout is not None:
            call = partial(_timed, call, what, timeout)
        if limit is not None:
            semaphore = QueuedSemaphore(limit, options.get("queue", HANDLER_QUEUE))
            self._semaphores.add(semaphore)
            call = partial(_in_turn, call, what, semaphore, timeout)
        return call

    def _place(self, function: Signature, what: str, run: Run) -> Runnable:
        if run == "process":
            from ..drivers.process_pool import locate  # what no handler asked for is not loaded

            if function.context_parameter is not None:
                raise RegistrationError(f"{what} asks for a Context, which cannot follow it into a process")
            locate(function.call)
            return partial(self._in_process, function.call)
        if function.is_async:
            return function.call
        return partial(_inline if run == "inline" else self._in_thread, function.call)

    async def call(self, function: Callable[..., Any], /, *args: Any, **arguments: Any) -> Any:
        """Call ``function`` once: a coroutine function here, a plain one in a worker thread."""
        if inspect.iscoroutinefunction(function):
            return await function(*args, **arguments)
        return await self._in_thread(function, *args, **arguments)

    async def _in_thread(self, function: Callable[..., Any], /, *args: Any, **arguments: Any) -> Any:
        threads = self._threads
        if threads is None:
            threads = self._threads = ThreadPool(self._limits.max_threads)
        value = await threads.run(function, *args, **arguments)
        return await value if inspect.isawaitable(value) else value

    async def _in_process(self, function: Callable[..., Any], /, **arguments: Any) -> Any:
        processes = self._processes
        if processes is None:
            from ..drivers.process_pool import ProcessPool

            processes = self._processes = ProcessPool()
        return await processes.run(function, **arguments)

    def waiting(self) -> dict[str, int]:
        """How many calls wait: for a thread, and for their turn at a handler with a limit."""
        threads = 0 if self._threads is None else self._threads.waiting
        return {"threads": threads, "handlers": sum(len(semaphore.waiting) for semaphore in self._semaphores)}

    async def close(self) -> None:
        """End the workers. Threads that are busy are left behind, processes are killed."""
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.close()
        processes, self._processes = self._processes, None
        if processes is not None:
            await processes.close()


async def _inline(function: Callable[..., Any], /, **arguments: Any) -> Any:
    value = function(**arguments)
    return await value if inspect.isawaitable(value) else value


async def _timed(inner: Runnable, what: str, seconds: float, /, **arguments: Any) -> Any:
    before = handler_time.get()
    time = HandlerTime(seconds, before)
    handler_time.set(time)
    try:
        async with time.limit:
            return await inner(**arguments)
    except TimeoutError:
        # A TimeoutError of the handler's own is not ours to explain.
        if time.limit.expired():
            raise HandlerTimeout(what, seconds) from None
        raise
    finally:
        time.over = True
        handler_time.set(before)


async def _in_turn(
    inner: Runnable, what: str, semaphore: QueuedSemaphore, seconds: float | None, /, **arguments: Any
) -> Any:
    """Wait for a place at most as long as the run itself may take: whoever waits longer has been forgotten."""
    try:
        async with asyncio.timeout(seconds):
            await semaphore.acquire()
    except asyncio.QueueFull:
        text = f"{what} is running as often as it may, and too many calls wait for it"
        raise ProtocolError("too_many_tools", text, data={"retryAfterMs": RETRY_AFTER_MS}) from None
    except TimeoutError:
        raise HandlerTimeout(what, seconds or 0.0) from None
    try:
        return await inner(**arguments)
    finally:
        semaphore.release()


async def resumed(session: Session) -> None:
    """Wait until a paused session goes on.

    Raises:
        Refusal: as many wait as may, or it ends instead.
    """
    while session.phase == "paused":
        waiting = session.waiting = [] if session.waiting is None else session.waiting
        if len(waiting) >= session.queue:
            break
        future = asyncio.get_running_loop().create_future()
        go_on = partial(_set, future)
        waiting.append(go_on)
        try:
            await future
        finally:
            if go_on in waiting:
                waiting.remove(go_on)
    if session.phase not in SERVING:
        raise Refusal(1008, message=f"the session is {session.phase}")


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


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


class Lifecycle:
    """The part of a `Server` that begins and ends: its lifespan, its workers, its listen streams."""

    runner: HandlerRunner
    tasks: TaskMethods | None
    watches: Watches | None
    before_store_closes: Callable[[], Awaitable[None]] | None = None
    """Ends what needs the store, before that is closed."""
    composition: Composition | None

    def __init__(self, lifespan: Enter | None) -> None:
        self._lifespan = None if lifespan is None else Lifespan(lifespan)
        self.health = Health(cast("MonitoredServer", self))
        """What this server needs, watched while it runs; ``/readyz`` follows."""
        self.listening: set[asyncio.Future[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        """Where subscribers are told of changes; known once the server has started, or there are any."""

    def wrap_lifespan(self, wrap: Callable[[Enter | None], Enter]) -> None:
        """Put something around the lifespan."""
        self._lifespan = Lifespan(wrap(None if self._lifespan is None else self._lifespan.enter))

    @property
    def lifespan_value(self) -> Any:
        """What the lifespan yielded; None while it is not running."""
        return None if self._lifespan is None else self._lifespan.value

    async def start(self) -> None:
        """Run the lifespan up to its ``yield``, once; whoever comes second waits for it."""
        if self._lifespan is not None:
            await self._lifespan.start()
        if self.composition is not None:
            await self.composition.start()
        self.health.start()
        self._loop = asyncio.get_running_loop()
        if self.watches is not None:
            self.watches.start()
        from ..telemetry.auto_instrument import instrument  # small, and loads no more than is wanted

        instrument(cast("Server", self))

    async def stop(self) -> None:
        """Complete the listen streams, end the workers, leave the lifespan; `start` may follow again."""
        self.end_listening()
        await self.health.stop()
        cast("Server", self).stop_noting()
        if self.watches is not None:
            await self.watches.stop()
        if self.tasks is not None:
            await self.tasks.tasks.close()
        await self.runner.close()
        for each in cast("Server", self).middleware:
            if isinstance(each, Middleware):
                each.stopped()
        if self.composition is not None:
            await self.composition.stop()
        if self._lifespan is not None:
            await self._lifespan.stop()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Self, None]:
        """`start` and `stop` around a block."""
        await self.start()
        try:
            yield self
        finally:
            await self.stop()

    def end_listening(self) -> None:
        """Complete every ``subscriptions/listen`` in an orderly way."""
        for future in self.listening:
            if not future.done():
                future.set_result(None)

    async def listen_until_stopped(self) -> None:
        """Wait until the server stops."""
        self._loop = asyncio.get_running_loop()
        future = self._loop.create_future()
        self.listening.add(future)
        try:
            await future
        finally:
            self.listening.discard(future)
