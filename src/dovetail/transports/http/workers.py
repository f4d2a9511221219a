"""Pre-fork worker processes: a supervisor starts them, replaces those that die, and stops them.

The supervisor binds the listening socket and keeps it open, but accepts nothing itself. Each worker inherits it and
accepts from it, so a connection that arrives while a worker is replaced is taken by another one, or waits.

```
supervisor ── fork ──> worker: reports that it is ready through a separate pipe
           <─ SIGCHLD ─ worker died: start another one, after a pause that doubles with each early death
           ── signal ─> SIGTERM and SIGINT are forwarded; after ``kill_after`` seconds comes SIGKILL
           ── EOF ────> the supervisor died: its end of one common pipe is closed, and each worker stops
```

The supervisor runs no event loop and no threads, because a fork copies neither.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NoReturn

from ...errors import DovetailError
from ..bind_address import print_line
from ..main_loop import EXIT_INTERRUPTED, STOP_SIGNALS, exit_now

log = logging.getLogger("dovetail.workers")

EARLY_DEATH: Final = 10.0
"""Seconds after its start within which the death of a worker counts as a failed start."""
FAILED_STARTS: Final = 8
"""Failed starts in a row of one worker after which the supervisor gives up."""
FIRST_PAUSE: Final = 0.1
MAX_RESTART_DELAY: Final = 5.0
"""Seconds before a worker that failed to start is started again: the pause doubles each time."""


class _WorkerProcess:
    """One worker process, and the failed starts of those it replaces."""

    def __init__(self, pid: int, ready: int, failures: int) -> None:
        self.pid = pid
        self.ready = ready
        """The pipe in which it reports that it is ready."""
        self.failures = failures
        self.started = time.monotonic()
        self.serving = False


class Supervisor:
    """Runs ``main`` in ``count`` processes until a signal stops them: `run` it in the main thread.

    ``main`` gets a function to call when the worker is ready, and returns the exit status of its process. ``on_ready``
    is called once, in the supervisor, when the first worker is ready; ``on_signal`` at the first signal; ``on_stop``
    when the workers begin to stop, whatever the reason.
    """

    def __init__(
        self,
        count: int,
        main: Callable[[Callable[[], None]], int],
        *,
        kill_after: float,
        on_ready: Callable[[], None],
        on_signal: Callable[[], None],
        on_stop: Callable[[], None],
    ) -> None:
        if not hasattr(os, "fork"):
            raise DovetailError(
                "several workers need fork(), which this system does not have: use --workers 1"
            )
        self._count = count
        self._main = main
        self._kill_after = kill_after
        self._on_ready = on_ready
        self._on_signal = on_signal
        self._on_stop = on_stop
        self._workers: dict[int, _WorkerProcess] = {}
        self._due: list[tuple[float, int]] = []
        """When replacements are started, and how many starts have failed before each."""
        self._served = False
        self._deadline: float | None = None
        """When workers that have not stopped are killed; None before a signal."""
        self._status = 0
        self._selector: selectors.BaseSelector
        self._wake: socket.socket
        self._waker: socket.socket
        self._alive: tuple[int, int]
        """The pipe whose writing end only the supervisor has."""

    def run(self) -> int:
        """Returns the exit status: 0 after SIGTERM, 130 after SIGINT, 1 when the workers do not stay."""
        self._selector = selectors.DefaultSelector()
        self._wake, self._waker = socket.socketpair()
        self._wake.setblocking(False)
        self._waker.setblocking(False)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._alive = os.pipe()
        before = signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        numbers = (*STOP_SIGNALS, signal.SIGCHLD)
        # Python writes the number of each signal to the socket, whatever the handler does.
        handlers = {number: signal.signal(number, _ignore) for number in numbers}
        try:
            for _ in range(self._count):
                self._start(0)
            while self._workers or self._due:
                self._step()
        finally:
            self._kill()
            signal.set_wakeup_fd(before)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            for worker in self._workers.values():
                self._forget(worker)
            self._close()
        return self._status

    def _step(self) -> None:
        """Wait for the next event, and act on it."""
        moments = [moment for moment, _ in self._due]
        if self._deadline is not None:
            moments.append(self._deadline)
        timeout = max(0.0, min(moments) - time.monotonic()) if moments else None
        for key, _ in self._selector.select(timeout):
            if key.fileobj is self._wake:
                for number in self._wake.recv(4096):
                    if number in STOP_SIGNALS:
                        self._stop(number)
            else:
                self._report(key.data)
        self._reap()
        now = time.monotonic()
        if self._deadline is not None and now >= self._deadline:
            self._kill()
        elif self._deadline is None:
            due = [failures for moment, failures in self._due if moment <= now]
            self._due = [one for one in self._due if one[0] > now]
            for failures in due:
                self._start(failures)

    # --- one worker ---------------------------------------------------------------------------------------------------

    def _start(self, failures: int) -> None:
        ready, report = os.pipe()
        # A signal between the fork and the handlers of the worker would be handled by those of the supervisor.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            pid = os.fork()
            if pid == 0:
                self._work(ready, report)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        os.close(report)
        worker = self._workers[pid] = _WorkerProcess(pid, ready, failures)
        self._selector.register(ready, selectors.EVENT_READ, worker)

    def _work(self, ready: int, report: int) -> NoReturn:
        """Be a worker; runs in the process that was forked."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (*STOP_SIGNALS, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
            for inherited in (ready, self._alive[1], *(one.ready for one in self._workers.values())):
                if inherited >= 0:
                    os.close(inherited)
            self._selector.close()
            self._wake.close()
            self._waker.close()
            threading.Thread(target=self._watch_supervisor, daemon=True).start()
            status = self._main(lambda: _report(report))
        except DovetailError as error:
            print_line(f"dovetail: {error.message}")
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else 1
        except BaseException as error:  # noqa: BLE001  nothing may return into the code of the supervisor
            from ...telemetry.short_traceback import short_traceback

            print_line(short_traceback(error))
        exit_now(status)

    def _watch_supervisor(self) -> None:
        """Stop this worker when the supervisor has died."""
        os.read(self._alive[0], 1)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(self._kill_after)
        exit_now(1)  # the main thread does not react

    def _report(self, worker: _WorkerProcess) -> None:
        """A worker is ready, or has exited before."""
        worker.serving = os.read(worker.ready, 1) != b""
        self._forget(worker)
        if worker.serving and not self._served:
            self._served = True
            self._on_ready()

    def _forget(self, worker: _WorkerProcess) -> None:
        if worker.ready >= 0:
            self._selector.unregister(worker.ready)
            os.close(worker.ready)
            worker.ready = -1

    def _reap(self) -> None:
        """Learn which workers have ended. Other children of this process belong to the author's code."""
        for worker in list(self._workers.values()):
            pid, status = os.waitpid(worker.pid, os.WNOHANG)
            if pid:
                if worker.ready >= 0 and self._deadline is None:
                    self._report(worker)
                self._forget(worker)
                del self._workers[pid]
                if self._deadline is None:
                    self._ended(worker, os.waitstatus_to_exitcode(status))

    def _ended(self, worker: _WorkerProcess, code: int) -> None:
        """Schedule the replacement of a worker that exited on its own initiative, or give up."""
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with status {code}"
        now = time.monotonic()
        failed = code != 0 or not worker.serving  # 0 after it has served: it was stopped
        failures = worker.failures + 1 if failed and now - worker.started < EARLY_DEATH else 0
        if failed and not self._served:
            self._give_up(f"worker {worker.pid} {how} before it was ready")
        elif failures >= FAILED_STARTS:
            self._give_up(f"worker {worker.pid} {how}: the last {failures} starts failed (crash loop)")
        else:
            log.warning("worker died pid=%d reason=%r; starting a replacement", worker.pid, how)
            pause = min(FIRST_PAUSE * 2 ** (failures - 1), MAX_RESTART_DELAY) if failures else 0.0
            self._due.append((now + pause, failures))

    # --- the end ------------------------------------------------------------------------------------------------------

    def _give_up(self, reason: str) -> None:
        if self._deadline is None:
            print_line(f"dovetail: {reason}; all workers are stopped")
            self._begin_to_stop(signal.SIGTERM)
            self._status = 1

    def _stop(self, number: int) -> None:
        if self._deadline is None:
            self._on_signal()
            self._begin_to_stop(number)
            self._status = EXIT_INTERRUPTED if number == signal.SIGINT else 0
        else:  # the user does not want to wait
            self._kill()
            self._status = 128 + number

    def _begin_to_stop(self, number: int) -> None:
        self._deadline = time.monotonic() + self._kill_after
        self._due.clear()
        self._on_stop()
        for pid in self._workers:
            os.kill(pid, number)

    def _kill(self) -> None:
        for pid in self._workers:
            if self._deadline is not None and time.monotonic() >= self._deadline:
                log.warning("worker killed pid=%d reason='did not stop in %gs'", pid, self._kill_after)
            os.kill(pid, signal.SIGKILL)
        for pid in self._workers:
            os.waitpid(pid, 0)
        for worker in self._workers.values():
            self._forget(worker)
        self._workers.clear()

    def _close(self) -> None:
        self._selector.close()
        self._wake.close()
        self._waker.close()
        for end in self._alive:
            os.close(end)


def _report(report: int) -> None:
    """Tell the supervisor that this worker is ready."""
    try:
        os.write(report, b"1")
    except OSError:
        pass  # the supervisor has died; the worker detects that separately
    os.close(report)


def _ignore(*_: Any) -> None:
    pass
