"""Threads for handlers that block.

The threads are daemons and our own: a process that was told to end does not wait for a handler that never
returns (the standard executor joins its threads at exit). A thread whose caller gave up cannot
be stopped, so it is written off and replaced, at most ``limit`` times at once; it ends when its function
returns. Code that must be killable belongs into a process, see `dovetail.drivers.process_pool`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, ParamSpec, Protocol, TypeVar

IDLE_THREAD_SECONDS: Final = 30.0
"""After which a worker thread without work ends."""

P = ParamSpec("P")
T = TypeVar("T")


class Killable(Protocol):
    """A pool of processes."""

    def kill(self) -> None: ...


KILLABLE: Final[weakref.WeakSet[Killable]] = weakref.WeakSet()
"""Those of this process. They are noted here, because a server that has none does not load `processes`."""


def kill_all() -> None:
    """Kill every worker process, for a process that is about to end without ceremony."""
    for pool in list(KILLABLE):
        pool.kill()


class _Job:
    """One function call on its way through a thread."""

    __slots__ = ("__weakref__", "abandoned", "call", "generation", "settle")

    def __init__(self, call: Callable[[], Any], settle: Callable[[Any, BaseException | None], None]) -> None:
        self.call = call
        self.settle = settle
        self.generation: int | None = None  # of the thread that runs it; None: it has not begun
        self.abandoned = False

    def run(self) -> None:
        try:
            result, error = self.call(), None
        except BaseException as reason:  # noqa: BLE001  whatever it is belongs to the caller
            result, error = None, reason
        self.settle(result, error)


class Threads:
    """At most ``limit`` daemon threads; calls beyond that wait their turn."""

    def __init__(self, limit: int = 32, *, name: str = "dovetail-worker") -> None:
        self._limit = limit
        self._name = name
        self._jobs: OrderedDict[_Job, None] = OrderedDict()  # those that have not begun, oldest first
        self._changed = threading.Condition()
        self._generation = 0  # grows with `close`; threads of an older one end when nothing waits
        self._backlog = 0  # jobs waiting or running, abandoned ones not counted
        self._alive = 0  # threads of this generation that will take another job
        self._stray = 0  # threads of this generation still busy for nobody

    @property
    def waiting(self) -> int:
        """Calls that have not begun."""
        return len(self._jobs)

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``function`` in a thread, in a copy of the present context, and return what it returns.

        When the caller is cancelled, a call that has not begun never begins; one that has goes on unseen.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()

        def settle(result: Any, error: BaseException | None) -> None:
            try:
                loop.call_soon_threadsafe(_set, future, result, error)
            except RuntimeError:
                pass  # the loop is gone, and with it whoever asked

        job = _Job(lambda: context.run(function, *args, **kwargs), settle)
        self._submit(job)
        try:
            return await future
        except asyncio.CancelledError:
            self._abandon(job)
            raise

    def close(self) -> None:
        """Let every idle thread end now, and every busy one when its function returns. Nothing waits.

        The pool stays usable: the next call starts new threads.
        """
        with self._changed:
            self._generation += 1
            self._alive = self._stray = 0
            self._changed.notify_all()

    def _submit(self, job: _Job) -> None:
        with self._changed:
            self._backlog += 1
            self._jobs[job] = None
            self._hire()
            self._changed.notify()

    def _hire(self) -> None:
        # Jobs of threads from before `close` are in the backlog too, but they need nobody new.
        if self._jobs and self._backlog > self._alive and self._alive < self._limit:
            self._alive += 1
            worker = threading.Thread(
                target=self._work, args=(self._generation,), name=self._name, daemon=True
            )
            worker.start()

    def _abandon(self, job: _Job) -> None:
        with self._changed:
            if job.abandoned:
                return
            if job.generation == self._generation:
                if self._stray >= self._limit:
                    return  # enough were written off: this one keeps its place until it returns
                self._alive -= 1
                self._stray += 1
            self._jobs.pop(job, None)  # waiting for a thread, it would keep its arguments alive
            job.abandoned = True
            self._backlog -= 1
            self._hire()

    def _work(self, generation: int) -> None:
        while (job := self._next(generation)) is not None:
            job.run()
            with self._changed:
                if job.abandoned:
                    self._stray -= generation == self._generation
                    return
                job.abandoned = True  # nothing is left to give up
                self._backlog -= 1
            del job  # an idle thread must not keep the last result alive

    def _next(self, generation: int) -> _Job | None:
        """Wait for a job; None: this thread is not needed any more."""
        with self._changed:
            while True:
                if self._jobs:
                    job, _ = self._jobs.popitem(last=False)
                    job.generation = generation
                    return job
                if generation != self._generation:
                    return None
                if not self._changed.wait(IDLE_THREAD_SECONDS) and not self._jobs:
                    self._alive -= generation == self._generation
                    return None


class DaemonExecutor(concurrent.futures.ThreadPoolExecutor):
    """The executor behind `asyncio.to_thread`, on `Threads`: nobody joins it at exit."""

    def __init__(self, threads: Threads) -> None:
        super().__init__(max_workers=1)  # never starts a thread: `submit` is ours
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
        # Weakly: the job holds the future already, and a circle of the two would wait for the collector.
        waiting = weakref.ref(job)

        def done(ended: concurrent.futures.Future[T]) -> None:
            # A caller of `asyncio.to_thread` that gives up cancels the future of a job that has not begun.
            given_up = waiting() if ended.cancelled() else None
            if given_up is not None:
                self._threads_of_ours._abandon(given_up)  # pyright: ignore[reportPrivateUsage]

        future.add_done_callback(done)
        self._threads_of_ours._submit(job)  # pyright: ignore[reportPrivateUsage]
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Never waits: that is what this class is for."""
        self._threads_of_ours.close()


def _set(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration):
        # A future cannot carry it: awaiting would look like the end of the coroutine.
        future.set_exception(RuntimeError("the function raised StopIteration"))
    else:
        future.set_exception(error)
