"""The main program of a process: its event loop, SIGINT and SIGTERM, and a watchdog that ends it in time.

SIGINT cancels the calls in progress and ends the process within half a second. SIGTERM, and the end of the input,
let calls finish within a grace period. Neither can rely on the event loop, because a handler may block it, nor on
threads that return, because a handler may be stuck in one. So a watchdog thread ends the process when the time is
up, and a second signal ends it at once.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from ..drivers.run import GRACE_SECONDS
from ..drivers.thread_pool import DaemonExecutor, ThreadPool, kill_all

if TYPE_CHECKING:
    from ..drivers.duplex import Duplex

TEARDOWN_SECONDS: Final = 1.0
"""Seconds for cleaning up after the last connection has closed."""


DRAIN_SECONDS: Final = 5.0
"""Seconds for calls to finish after SIGTERM."""
INTERRUPT_SECONDS: Final = 0.4
"""Seconds from SIGINT to the end of the process, in any case."""

STOPPING: Final = "dovetail: stopping when all calls have ended; send the signal again to stop at once"
"""The line that a graceful stop prints to stderr, on every transport."""

EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_TERMINATED = 128 + signal.SIGTERM
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """A request to stop, and the time that calls in progress still get."""

    def __init__(self, *, announce: bool = False) -> None:
        self.drain: float = GRACE_SECONDS
        self.status = 0
        self._wanted = asyncio.Event()
        self._announce = announce
        """Whether a graceful stop prints `STOPPING`."""

    def request(self, drain: float, status: int = 0) -> None:
        """Ask the program to stop: calls get ``drain`` seconds, and the process exits with ``status``."""
        self.drain = drain
        self.status = status
        if self._announce and status == 0:
            with suppress(OSError, ValueError):  # stderr is closed
                sys.stderr.write(f"{STOPPING}\n")
        self._wanted.set()

    async def wait(self) -> None:
        """Return when the program is asked to stop."""
        await self._wanted.wait()


async def until_closed(duplex: Duplex, stop: Stop | None) -> None:
    """Wait until the peer has disconnected, or close the connection when ``stop`` is requested."""
    ended = asyncio.ensure_future(duplex.wait_closed())
    asked = asyncio.ensure_future(_never() if stop is None else stop.wait())
    try:
        await asyncio.wait({ended, asked}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            # 2026-07-28, Subscriptions: a server that shuts down completes its listen streams before it disconnects.
            duplex.service.end_listening()
            await duplex.close(drain=duplex.grace if stop is None else stop.drain)
        await ended
    finally:
        ended.cancel()
        asked.cancel()


async def _never() -> None:
    await asyncio.get_running_loop().create_future()


class Watchdog:
    """Ends the process after some seconds unless it is cancelled."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def arm(self, seconds: float, status: int) -> None:
        self.cancel()
        self._timer = threading.Timer(seconds, exit_now, (status,))
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def exit_now(status: int) -> NoReturn:
    """End the process at once, without cleaning up."""
    kill_all()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass
    os._exit(status)


class ShutdownTimes(NamedTuple):
    """Seconds from a signal to the end of the process."""

    drain: float
    """The grace period of running calls after SIGTERM."""
    margin: float
    """Time for the rest of a graceful shutdown; then the watchdog ends the process."""
    interrupted_drain: float
    """The grace period of running calls after SIGINT, when a user waits at the terminal."""
    interrupted_margin: float


class Signals:
    """Handles SIGINT and SIGTERM while a program runs. Only the main thread of a process can receive them.

    The first signal asks ``stop`` for an orderly end, and arms the watchdog. A second one ends the process at once,
    unless ``repeated`` is False: a worker process gets them twice when a terminal signals all processes.
    """

    def __init__(
        self, stop: Stop, watchdog: Watchdog | None, times: ShutdownTimes, *, repeated: bool = True
    ) -> None:
        self._stop = stop
        self._watchdog = watchdog
        self._times = times
        self._repeated = repeated
        self._loop = asyncio.get_running_loop()
        self._previous: dict[int, Any] = {}
        self._received = False

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            # Not `loop.add_signal_handler`: that waits for the loop, and a handler may be blocking it.
            for number in STOP_SIGNALS:
                self._previous[number] = signal.signal(number, self._receive)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self._received:
            if self._repeated:
                exit_now(128 + number)
            return
        self._received = True
        interrupted, times = number == signal.SIGINT, self._times
        drain = times.interrupted_drain if interrupted else times.drain
        if self._watchdog is not None:
            margin = times.interrupted_margin if interrupted else times.margin
            self._watchdog.arm(drain + margin, EXIT_INTERRUPTED if interrupted else EXIT_TERMINATED)
        self._loop.call_soon_threadsafe(self._stop.request, drain, EXIT_INTERRUPTED if interrupted else 0)


def run(main: Callable[[Stop], Awaitable[None]], *, drain: float = DRAIN_SECONDS, threads: int) -> int:
    """Run ``main`` until it returns; it must return soon after `Stop.wait` does. Gives the exit status."""
    watchdog = Watchdog()
    executor = DaemonExecutor(ThreadPool(threads))
    stops: list[Stop] = []

    async def supervised() -> None:
        stop = Stop(announce=True)
        stops.append(stop)
        asyncio.get_running_loop().set_default_executor(executor)
        with Signals(stop, watchdog, ShutdownTimes(drain, TEARDOWN_SECONDS, 0.0, INTERRUPT_SECONDS)):
            await main(stop)
            # From here on only leftover user code can block: tasks that ignore their cancellation.
            watchdog.arm(TEARDOWN_SECONDS if stop.status == 0 else INTERRUPT_SECONDS, stop.status)

    format_unconfigured_logs()
    try:
        asyncio.run(supervised())
    except Exception as error:
        from ..telemetry.crash_report import report  # a server loads it only here

        report(error)
        raise
    finally:
        watchdog.cancel()
    return stops[0].status


class _UnconfiguredLogs(logging.Formatter):
    """Formats what a program that has not configured logging prints. It loads with the first message."""

    def format(self, record: logging.LogRecord) -> str:
        from ..telemetry.terminal_sanitizer import stderr_formatter

        return stderr_formatter().format(record)


def format_unconfigured_logs() -> None:
    """Give the warnings of a program that has not configured logging a time, a level and short tracebacks."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_UnconfiguredLogs())


def fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the event loop factory of uvloop, or of winloop on Windows; None if neither is installed."""
    for name in ("uvloop", "winloop"):
        try:
            return importlib.import_module(name).new_event_loop
        except ImportError:
            pass
    return None
