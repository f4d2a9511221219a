"""`HandlerRunner`: runs handlers on the event loop, in worker threads or in processes.

A handler may have a timeout and a concurrency limit. The chain of these guards is built once, at registration. A guard
that is not configured is absent, so an async tool without options is called directly.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal
from weakref import WeakSet

from ..core.channel import Session
from ..core.phases import SERVING
from ..drivers.thread_pool import ThreadPool
from ..errors import RETRY_AFTER_MS, DovetailError, ProtocolError, Refusal, RegistrationError
from ..settings import Limits

if TYPE_CHECKING:
    from ..drivers.process_pool import ProcessPool
    from ..drivers.semaphore import QueuedSemaphore
    from .signatures.parameters import Signature

HANDLER_QUEUE: Final = 100
"""The default length of the queue of a handler with a ``limit``; further calls are refused."""

Run = Literal["thread", "inline", "process"]
Runnable = Callable[..., Awaitable[Any]]


class HandlerTimeout(DovetailError):
    """A handler exceeded the timeout of its registration."""

    kind = "tool_timeout"

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what} did not finish within its timeout of {seconds:g} s")
        self.seconds = seconds


class HandlerTime:
    """The remaining time of a handler. The clock is stopped while the handler waits for an answer of the client.

    On 2026-07-28 the handler does not run during that time either, so a timeout means the same on every revision.
    """

    __slots__ = ("_left", "_outer", "_pauses", "limit", "over")

    def __init__(self, seconds: float, outer: HandlerTime | None = None) -> None:
        self._outer = outer
        self.over = False
        """The timeout is over; tasks started by the handler may still read it."""
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
"""The time limit of the innermost handler that runs here."""


def stop_clock() -> HandlerTime | None:
    """Stop the clock of the handler that runs here, until it is resumed."""
    time = handler_time.get()
    if time is not None:
        time.pause()
    return time


class HandlerRunner:
    """The threads and processes of one server. They start when the first handler needs one."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._semaphores: WeakSet[QueuedSemaphore] = WeakSet()
        self._threads: ThreadPool | None = None
        self._processes: ProcessPool | None = None

    def prepare(
        self, function: Signature, what: str, options: Mapping[str, Any], timeout: float | None
    ) -> Runnable:
        """Wrap ``function`` in the guards of its registration; return a coroutine function.

        Raises:
            RegistrationError: the function cannot run in a process.
        """
        timeout, limit = options.get("timeout", timeout), options.get("limit")
        call = self._place(function, what, options.get("run", "thread"))
        if timeout is not None:
            call = partial(_timed, call, what, timeout)
        if limit is not None:
            from ..drivers.semaphore import QueuedSemaphore  # most handlers have no limit

            semaphore = QueuedSemaphore(limit, options.get("queue", HANDLER_QUEUE))
            self._semaphores.add(semaphore)
            call = partial(_in_turn, call, what, semaphore, timeout)
        return call

    def _place(self, function: Signature, what: str, run: Run) -> Runnable:
        if run == "process":
            from ..drivers.process_pool import locate  # loaded with the first handler that runs in a process

            if function.context_parameter is not None:
                raise RegistrationError(f"{what} takes a Context, which no process gets: use run='thread'")
            locate(function.call)
            return partial(self._in_process, function.call)
        if function.is_async:
            return function.call
        return partial(_inline if run == "inline" else self._in_thread, function.call)

    async def call(self, function: Callable[..., Any], /, *args: Any, **arguments: Any) -> Any:
        """Call ``function`` once: a coroutine function on the event loop, a plain one in a worker thread."""
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
        """The number of queued calls: those waiting for a thread, and those waiting for a handler with a limit."""
        threads = 0 if self._threads is None else self._threads.waiting
        return {"threads": threads, "handlers": sum(len(semaphore.waiting) for semaphore in self._semaphores)}

    async def close(self) -> None:
        """Stop the workers. Busy threads are abandoned, processes are killed."""
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
        # A TimeoutError raised by the handler itself is not a HandlerTimeout.
        if time.limit.expired():
            raise HandlerTimeout(what, seconds) from None
        raise
    finally:
        time.over = True
        handler_time.set(before)


async def _in_turn(
    inner: Runnable, what: str, semaphore: QueuedSemaphore, seconds: float | None, /, **arguments: Any
) -> Any:
    """Wait for a slot no longer than the handler's own timeout: by then the client has given up."""
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
    """Wait until a paused session is resumed.

    Raises:
        Refusal: too many calls wait, or the session ends first.
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
