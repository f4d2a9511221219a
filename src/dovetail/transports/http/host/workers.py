"""Several processes on one address: the parent binds, forks, and replaces a worker that dies.

The workers share the listening socket, the keys of the server, which were made before the fork, and the board
of ended sessions. So any worker can read the session ids, cursors and states that another one handed out.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, Final

log = logging.getLogger("dovetail.http")

STARTING: Final = 2.0
"""Seconds in which a worker that ends has failed to start."""
PAUSE: Final = 0.5
"""Seconds before the successor of such a worker is started."""

Work = Callable[[int], int]
"""What a worker does, given the number of its seat; returns its exit status."""


class Supervisor:
    """Keeps ``count`` workers running until a signal; then lets them drain and leaves with them.

    A worker that has not ended ``patience`` seconds after the signal is killed.
    """

    def __init__(self, count: int, work: Work, patience: float) -> None:
        self._count = count
        self._work = work
        self._patience = threading.Timer(patience, self._kill)
        self._patience.daemon = True
        self._seats: dict[int, tuple[int, float]] = {}
        """Process id → number of its seat, when it was started."""
        self._stopping = False
        self._status = 0

    def run(self) -> int:
        """Returns the exit status once every worker has ended."""
        before = {number: signal.signal(number, self._stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            for seat in range(self._count):
                self._start(seat)
            failures = 0
            while self._seats:
                pid, status = os.wait()
                if pid not in self._seats:
                    continue  # a child of somebody else in this process
                seat, begun = self._seats.pop(pid)
                if self._stopping:
                    if os.WIFEXITED(status):  # by a signal: ours reached it before it had begun
                        self._status = self._status or os.WEXITSTATUS(status)
                    continue
                failed = time.monotonic() - begun < STARTING  # whatever ended it: a crash is a signal, too
                failures = failures + 1 if failed else 0
                if failures > self._count:
                    log.error("the workers do not start; giving up")
                    self._status = 1
                    self._stop(signal.SIGTERM, None)
                    continue
                log.warning("worker %d has ended; starting another one", pid)
                if failed:
                    time.sleep(PAUSE)
                self._start(seat)
        finally:
            self._patience.cancel()
            for number, handler in before.items():
                signal.signal(number, handler)
        return self._status

    def _start(self, seat: int) -> None:
        # A signal between fork and the worker's own handlers must not run ours in the worker.
        numbers = {signal.SIGTERM, signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        pid = 0 if self._stopping else os.fork()
        if not pid and not self._stopping:
            self._be_worker(seat, numbers)
        if pid:
            self._seats[pid] = (seat, time.monotonic())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)

    def _be_worker(self, seat: int, numbers: set[signal.Signals]) -> None:
        status = 1
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent passes it on as SIGTERM
            signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
            status = self._work(seat)
        except BaseException:
            log.exception("worker %d failed", os.getpid())
        finally:
            os._exit(status)

    def _stop(self, number: int, frame: Any) -> None:
        if number == signal.SIGINT:
            self._status = 128 + signal.SIGINT
        if not self._stopping:
            self._stopping = True
            self._patience.start()  # no worker is forked from here on, so the thread is in none
        self._tell(signal.SIGTERM)

    def _kill(self) -> None:
        log.error("killing the workers that do not end: %s", list(self._seats))
        self._status = self._status or 128 + signal.SIGTERM
        self._tell(signal.SIGKILL)

    def _tell(self, number: signal.Signals) -> None:
        for pid in list(self._seats):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
