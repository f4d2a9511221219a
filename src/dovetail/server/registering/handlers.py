"""How a handler is run: on the event loop, in a worker thread, in a process; with a timeout, with a limit.

The way is put together once, when the handler is registered: a guard that was not asked for is absent, so an
async tool without options is called directly.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from ...drivers.pool import Threads
from ...drivers.processes import Processes, locate
from ...errors import DovetailError, ProtocolError, RegistrationError
from ...settings import Limits
from .options import Run

Runnable = Callable[..., Awaitable[Any]]


class Handler(Protocol):
    """What is run: the prepared function of a tool, a resource or a prompt."""

    @property
    def is_async(self) -> bool: ...
    @property
    def context_parameter(self) -> str | None: ...
    @property
    def call(self) -> Callable[..., Any]: ...


class Deadline(DovetailError):
    """A handler ran out of the time its registration gives it."""

    kind = "tool_timeout"

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what} did not finish within its timeout of {seconds:g} s")
        self.seconds = seconds


class Timer:
    """The time a handler has left. It does not run while the handler waits for the client's answer.

    On 2026-07-28 nothing runs in that time either, so a timeout means the same in both eras.
    """

    __slots__ = ("_left", "_pauses", "limit")

    def __init__(self, seconds: float) -> None:
        self.limit = asyncio.timeout(seconds)
        self._left = seconds
        self._pauses = 0

    def pause(self) -> None:
        self._pauses += 1
        when = self.limit.when()
        if self._pauses == 1 and when is not None:
            self._left = when - asyncio.get_running_loop().time()
            self.limit.reschedule(None)

    def resume(self) -> None:
        self._pauses -= 1
        if not self._pauses and not self.limit.expired():
            self.limit.reschedule(asyncio.get_running_loop().time() + self._left)


_timer: ContextVar[Timer | None] = ContextVar("dovetail_timer", default=None)


@contextmanager
def off_the_clock() -> Generator[None, None, None]:
    """The handler that runs here waits for somebody else: its own time stands still."""
    timer = _timer.get()
    if timer is None:
        yield
        return
    timer.pause()
    try:
        yield
    finally:
        timer.resume()


class Runner:
    """The workers of one server. Threads and processes start when the first handler needs one."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._threads: Threads | None = None
        self._processes: Processes | None = None

    def prepare(
        self, function: Handler, what: str, *, run: Run, timeout: float | None, limit: int | None = None
    ) -> Runnable:
        """The coroutine function that runs ``function`` with exactly the guards asked for.

        Raises:
            RegistrationError: it cannot run in a process.
        """
        call = self._place(function, what, run)
        if timeout is not None:
            call = _with_timeout(call, what, timeout)
        if limit is not None:
            call = _with_limit(call, what, limit)
        return call

    def _place(self, function: Handler, what: str, run: Run) -> Runnable:
        if run == "process":
            if function.context_parameter is not None:
                raise RegistrationError(f"{what} asks for a Context, which cannot follow it into a process")
            locate(function.call)
            return self._in_process(function.call)
        if function.is_async:
            return function.call
        return _inline(function.call) if run == "inline" else self._in_thread(function.call)

    def _in_thread(self, function: Callable[..., Any]) -> Runnable:
        async def call(**arguments: Any) -> Any:
            value = await self._workers().run(function, **arguments)
            return await value if inspect.isawaitable(value) else value

        return call

    def _in_process(self, function: Callable[..., Any]) -> Runnable:
        async def call(**arguments: Any) -> Any:
            processes = self._processes
            if processes is None:
                processes = self._processes = Processes()
            return await processes.run(function, **arguments)

        return call

    async def call(self, function: Callable[..., Any], /, *args: Any, **arguments: Any) -> Any:
        """Call ``function`` once: a coroutine function here, a plain one in a worker thread."""
        if inspect.iscoroutinefunction(function):
            return await function(*args, **arguments)
        value = await self._workers().run(function, *args, **arguments)
        return await value if inspect.isawaitable(value) else value

    def _workers(self) -> Threads:
        threads = self._threads
        if threads is None:
            threads = self._threads = Threads(self._limits.threads)
        return threads

    async def close(self) -> None:
        """End the workers. Threads that are busy are left behind, processes are killed."""
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.close()
        processes, self._processes = self._processes, None
        if processes is not None:
            await processes.close()


def _inline(function: Callable[..., Any]) -> Runnable:
    async def call(**arguments: Any) -> Any:
        value = function(**arguments)
        return await value if inspect.isawaitable(value) else value

    return call


def _with_timeout(inner: Runnable, what: str, seconds: float) -> Runnable:
    async def call(**arguments: Any) -> Any:
        timer = Timer(seconds)
        before = _timer.set(timer)
        try:
            async with timer.limit:
                return await inner(**arguments)
        except TimeoutError:
            # A TimeoutError of the handler's own is not ours to explain.
            if timer.limit.expired():
                raise Deadline(what, seconds) from None
            raise
        finally:
            _timer.reset(before)

    return call


def _with_limit(inner: Runnable, what: str, limit: int) -> Runnable:
    running = 0

    async def call(**arguments: Any) -> Any:
        nonlocal running
        if running >= limit:
            data = {"limit": limit, "retryAfterMs": 1000}
            raise ProtocolError("too_many_tools", f"{what} is already running {limit} times", data=data)
        running += 1
        try:
            return await inner(**arguments)
        finally:
            running -= 1

    return call
