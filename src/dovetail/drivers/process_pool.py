"""A process pool for handlers that must be killable.

A worker is a fresh interpreter that runs one call at a time. Cancelling a call or its timeout kills the
worker; the next call gets another one. Functions are sent as module and name, arguments and results as
pickles. So a function must be at the top level of a module or of the served file.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from collections.abc import Callable
from typing import Any, cast

from ..errors import DovetailError, RegistrationError
from .thread_pool import PROCESS_POOLS
from .worker_process import HEADER, MAIN

Target = tuple[str, str | None, str]


class WorkerLost(DovetailError):
    """The worker process died during the call: killed, out of memory, or crashed in C code."""


class _PoolProcess:
    """One child process and its two pipes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout

    @classmethod
    async def start(cls) -> _PoolProcess:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "dovetail.drivers.worker_process",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # `-m` runs before the worker has the sys.path of the parent, so this package must be found
            # without it.
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
            raise WorkerLost(f"the worker process exited with status {status} during the call") from None

    def _send(self, message: bytes) -> None:
        self._stdin.write(HEADER.pack(len(message)) + message)

    def kill(self) -> None:
        if self.alive:
            self._process.kill()

    async def wait_exited(self) -> None:
        """Kill the process, reap it, and close its pipes."""
        self.kill()
        await self._process.wait()
        self._stdin.close()
        # The pipe of a dead process is at its end. Reading to the end closes this side of it.
        await self._stdout.read()


class ProcessPool:
    """At most ``limit`` worker processes (default: one per core). Further calls wait."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit or os.cpu_count() or 1
        self._slots = asyncio.Semaphore(self._limit)
        self._idle: list[_PoolProcess] = []
        self._busy: set[_PoolProcess] = set()
        self._ending: set[asyncio.Task[None]] = set()
        PROCESS_POOLS.add(self)

    async def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call ``function`` in a worker and return its (pickled) result. Cancelling kills the worker.

        Raises:
            WorkerLost: the process died before it returned a result.
            RegistrationError: the function cannot be found by name in another process.
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
        worker = await self._acquire()
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
                self._discard(worker)

    async def _acquire(self) -> _PoolProcess:
        while self._idle:
            worker = self._idle.pop()
            if worker.alive:
                return worker
            self._discard(worker)
        return await _PoolProcess.start()

    def _discard(self, worker: _PoolProcess) -> None:
        task = asyncio.get_running_loop().create_task(worker.wait_exited())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def kill(self) -> None:
        """Kill every worker at once, from any thread, before the process exits."""
        for worker in [*self._idle, *self._busy]:
            worker.kill()

    async def close(self) -> None:
        """Kill every worker and wait for their exit. Running calls fail with `WorkerLost`."""
        self.kill()
        idle, self._idle = self._idle, []
        for worker in idle:
            self._discard(worker)
        while self._ending:
            await asyncio.wait(self._ending)


def locate(function: Callable[..., Any]) -> Target:
    """Return module, file and qualified name of ``function``, so that another process can find it.

    Raises:
        RegistrationError: it is nested in another function, or not a function.
    """
    name = getattr(function, "__qualname__", None)
    module = getattr(function, "__module__", None)
    if not isinstance(name, str) or not isinstance(module, str) or "<" in name:
        raise RegistrationError(
            f"{name or function!r} cannot run in a worker process: define it with def at the top level of a module"
        )
    source = sys.modules.get(module)
    file = getattr(source, "__file__", None)
    if module == "__main__" and source is not None:
        sys.modules.setdefault(MAIN, source)  # pickled results refer to their classes by this name
    return module, os.path.abspath(file) if file else None, name
