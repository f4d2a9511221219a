"""A thread pool for blocking handlers.

The threads are daemons, so a process can exit although a handler never returns (the standard executor joins
its threads at exit). A thread cannot be stopped. If its caller is cancelled, the thread is abandoned and
replaced, at most ``limit`` at a time. It ends when its function returns. Code that must be killable belongs
into a process, see `dovetail.drivers.process_pool`.

A platform without threads (WebAssembly) runs each function on the event loop instead, which waits for it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, ParamSpec, Protocol, TypeVar

IDLE_THREAD_SECONDS: Final = 30.0
"""Seconds after which an idle worker thread ends."""

HAS_THREADS: Final = sys.platform not in ("emscripten", "wasi")
"""Whether this platform can start threads."""

P = ParamSpec("P")
T = TypeVar("T")


class KillablePool(Protocol):
    """A process pool that can be killed."""

    def kill(self) -> None: ...


PROCESS_POOLS: Final[weakref.WeakSet[KillablePool]] = weakref.WeakSet()
"""The process pools of this process.

They register here, so that a server without any need not import `process_pool`.
"""


def kill_all() -> None:
    """Kill every worker process at once, before the process exits."""
    for pool in list(PROCESS_POOLS):
        pool.kill()


class _Job:
    """One function call for a thread."""

    __slots__ = ("__weakref__", "abandoned", "call", "generation", "settle")

    def __init__(self, call: Callable[[], Any], settle: Callable[[Any, BaseException | None], None]) -> None:
        self.call = call
        self.settle = settle
        self.generation: int | None = None  # generation of the thread that runs it; None: not started
        self.abandoned = False

    def run(self) -> None:
        try:
            result, error = self.call(), None
        except BaseException as reason:  # noqa: BLE001  every exception is passed to the caller
            result, error = None, reason
        self.settle(result, error)


class ThreadPool:
    """At most ``limit`` daemon threads. Further calls wait."""

    def __init__(self, limit: int = 32, *, name: str = "dovetail-worker") -> None:
        self._limit = limit
        self._name = name
        self._jobs: OrderedDict[_Job, None] = OrderedDict()  # jobs not started, oldest first
        self._changed = threading.Condition()
        self._generation = 0  # incremented by `close`; threads of an older generation end when no job waits
        self._backlog = 0  # jobs waiting or running, without abandoned ones
        self._available = 0  # threads of this generation that can take another job
        self._abandoned = 0  # threads of this generation whose caller was cancelled

    @property
    def waiting(self) -> int:
        """Number of calls that have not started."""
        return len(self._jobs)

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``function`` in a thread, in a copy of the current context, and return its result.

        If the caller is cancelled, a call that has not started never starts. A running call continues
        unobserved.
        """
        if not HAS_THREADS:
            return contextvars.copy_context().run(function, *args, **kwargs)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()

        def settle(result: Any, error: BaseException | None) -> None:
            try:
                loop.call_soon_threadsafe(_set, future, result, error)
            except RuntimeError:
                pass  # the loop was closed, so no caller waits

        job = _Job(lambda: context.run(function, *args, **kwargs), settle)
        self._submit(job)
        try:
            return await future
        except asyncio.CancelledError:
            self._abandon(job)
            raise

    def close(self) -> None:
        """End idle threads now, and busy ones when their function returns. Does not wait.

        The pool stays usable: the next call starts new threads.
        """
        with self._changed:
            self._generation += 1
            self._available = self._abandoned = 0
            self._changed.notify_all()

    def _submit(self, job: _Job) -> None:
        with self._changed:
            self._backlog += 1
            self._jobs[job] = None
            self._start_thread()
            self._changed.notify()

    def _start_thread(self) -> None:
        # Jobs of threads from before `close` are in the backlog too, but they need no new thread.
        if self._jobs and self._backlog > self._available and self._available < self._limit:
            self._available += 1
            worker = threading.Thread(
                target=self._work, args=(self._generation,), name=self._name, daemon=True
            )
            worker.start()

    def _abandon(self, job: _Job) -> None:
        with self._changed:
            if job.abandoned:
                return
            if job.generation == self._generation:
                if self._abandoned >= self._limit:
                    return  # too many threads are abandoned: this one keeps its slot until it returns
                self._available -= 1
                self._abandoned += 1
            self._jobs.pop(job, None)  # a queued job would keep its arguments alive
            job.abandoned = True
            self._backlog -= 1
            self._start_thread()

    def _work(self, generation: int) -> None:
        while (job := self._next(generation)) is not None:
            job.run()
            with self._changed:
                if job.abandoned:
                    self._abandoned -= generation == self._generation
                    return
                job.abandoned = True  # it cannot be abandoned any more
                self._backlog -= 1
            del job  # an idle thread must not keep the last result alive

    def _next(self, generation: int) -> _Job | None:
        """Wait for a job. None: this thread is not needed any more."""
        with self._changed:
            while True:
                if self._jobs:
                    job, _ = self._jobs.popitem(last=False)
                    job.generation = generation
                    return job
                if generation != self._generation:
                    return None
                if not self._changed.wait(IDLE_THREAD_SECONDS) and not self._jobs:
                    self._available -= generation == self._generation
                    return None


class DaemonExecutor(concurrent.futures.ThreadPoolExecutor):
    """The executor for `asyncio.to_thread`, on `ThreadPool`: not joined at exit."""

    def __init__(self, threads: ThreadPool) -> None:
        super().__init__(max_workers=1)  # starts no threads: this class overrides `submit`
        self._threads_of_ours = threads

    def submit(
        self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> concurrent.futures.Future[T]:
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def call() -> Any:
            return fn(*args, **kwargs) if future.set_running_or_notify_cancel() else None

        def settle(result: Any, error: BaseException | None) -> None:
            if future.cancelled():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        job = _Job(call, settle)
        # A weak reference: the job refers to the future, and a reference cycle would wait for the garbage
        # collector.
        waiting = weakref.ref(job)

        def done(ended: concurrent.futures.Future[T]) -> None:
            # A cancelled `asyncio.to_thread` cancels the future of a job that has not started.
            given_up = waiting() if ended.cancelled() else None
            if given_up is not None:
                self._threads_of_ours._abandon(given_up)  # pyright: ignore[reportPrivateUsage]

        future.add_done_callback(done)
        self._threads_of_ours._submit(job)  # pyright: ignore[reportPrivateUsage]
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Return at once: daemon threads are not joined."""
        self._threads_of_ours.close()


def _set(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration | GeneratorExit | KeyboardInterrupt):
        # Awaiting the future would end or close the coroutine, or end the process. Ctrl-C reaches the main thread only.
        failure = RuntimeError(f"the function raised {type(error).__name__}")
        failure.__cause__ = error
        future.set_exception(failure)
    else:
        future.set_exception(error)
