"""Processes for handlers that must be killable.

A worker is a fresh interpreter that makes one call at a time. A caller that is cancelled or runs out of time
kills its worker; the next call gets another one. Functions travel as the place where they are defined,
arguments and results as pickles, so a function has to be at the top level of a module or of the served file.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from collections.abc import Callable
from typing import Any, cast

from ..errors import DovetailError, RegistrationError
from .thread_pool import KILLABLE
from .worker_process import HEADER, MAIN

Target = tuple[str, str | None, str]


class WorkerLost(DovetailError):
    """The worker process died under the call: killed from outside, out of memory, or crashed in C code."""


class _Worker:
    """One child and its two pipes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout

    @classmethod
    async def start(cls) -> _Worker:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "dovetail.drivers.worker_process",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # `-m` runs before the parent's sys.path arrives, so this package must be found without it.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        worker = cls(process)
        worker._send(pickle.dumps(sys.path))
        return worker

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def call(self, request: bytes) -> tuple[bool, Any]:
        try:
            self._send(request)
            await self._stdin.drain()
            (size,) = HEADER.unpack(await self._stdout.readexactly(HEADER.size))
            return pickle.loads(await self._stdout.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            status = await self._process.wait()
            raise WorkerLost(f"the worker process ended with status {status}") from None

    def _send(self, message: bytes) -> None:
        self._stdin.write(HEADER.pack(len(message)) + message)

    def kill(self) -> None:
        if self.alive:
            self._process.kill()

    async def gone(self) -> None:
        """Kill it, collect it, and let go of its pipes."""
        self.kill()
        await self._process.wait()
        self._stdin.close()
        # The pipe of a dead process ends at once; reading to its end is what closes our side of it.
        await self._stdout.read()


class Processes:
    """At most ``limit`` worker processes (default: one per core); calls beyond that wait their turn."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit or os.cpu_count() or 1
        self._slots = asyncio.Semaphore(self._limit)
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._ending: set[asyncio.Task[None]] = set()
        KILLABLE.add(self)

    async def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call ``function`` in a worker and return its (pickled) result; cancelling kills the worker.

        Raises:
            WorkerLost: the process died before it answered.
            RegistrationError: the function cannot be found by name from another process.
        """
        target = locate(function)
        request = pickle.dumps((target, pickle.dumps((args, kwargs))))
        async with self._slots:
            succeeded, value = await self._call(request)
        if succeeded:
            return value
        error, trace = value
        cast("BaseException", error).add_note(f"In the worker process:\n{trace}")
        raise error

    async def _call(self, request: bytes) -> tuple[bool, Any]:
        worker = await self._take()
        self._busy.add(worker)
        finished = False
        try:
            reply = await worker.call(request)
            finished = True
            return reply
        finally:
            self._busy.discard(worker)
            if finished and worker.alive:
                self._idle.append(worker)
            else:
                worker.kill()
                self._end(worker)

    async def _take(self) -> _Worker:
        while self._idle:
            worker = self._idle.pop()
            if worker.alive:
                return worker
            self._end(worker)
        return await _Worker.start()

    def _end(self, worker: _Worker) -> None:
        task = asyncio.get_running_loop().create_task(worker.gone())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def kill(self) -> None:
        """Kill every worker at once, from any thread; for a process that is about to end."""
        for worker in [*self._idle, *self._busy]:
            worker.kill()

    async def close(self) -> None:
        """Kill every worker and wait until all are collected. Calls under way fail with `WorkerLost`."""
        self.kill()
        idle, self._idle = self._idle, []
        for worker in idle:
            self._end(worker)
        while self._ending:
            await asyncio.wait(self._ending)


def locate(function: Callable[..., Any]) -> Target:
    """Where another process finds ``function``: module, file and qualified name.

    Raises:
        RegistrationError: it is nested in another function, or no function at all.
    """
    name = getattr(function, "__qualname__", None)
    module = getattr(function, "__module__", None)
    if not isinstance(name, str) or not isinstance(module, str) or "<" in name:
        raise RegistrationError(
            f"{name or function!r} cannot run in a process: define it with def at the top level of a module"
        )
    source = sys.modules.get(module)
    file = getattr(source, "__file__", None)
    if module == "__main__" and source is not None:
        sys.modules.setdefault(MAIN, source)  # results name their classes so
    return module, os.path.abspath(file) if file else None, name
