"""Be the main program of a process: one loop, the two signals, and an end that always comes.

SIGINT cancels what runs and ends the process within half a second; SIGTERM (and the end of the input) lets
calls finish within a grace time. Neither can rely on the event loop alone, because a handler may be blocking
it, nor on threads coming back, because a handler may be stuck in one. So a watchdog thread ends the process
when the time is up, and a second signal does so at once.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any

from ..drivers.duplex import Duplex
from ..drivers.pool import DaemonExecutor, Threads, kill_all
from ..settings import (
    APART_BYTES,
    COLLECT_AFTER,
    COLLECT_AT_START,
    COLLECT_OLDER,
    COLLECT_USUALLY,
    DRAIN_SECONDS,
    GRACE_SECONDS,
    INTERRUPT_SECONDS,
    SPARE_BYTES,
    TEARDOWN_SECONDS,
)
from ..telemetry.crash import reported

EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_TERMINATED = 128 + signal.SIGTERM
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""What glibc's ``mallopt`` can be told."""


class Stop:
    """When to end, and how much time calls under way still get."""

    def __init__(self) -> None:
        self.drain: float = GRACE_SECONDS
        self.status = 0
        self._wanted = asyncio.Event()

    def request(self, drain: float, status: int = 0) -> None:
        self.drain = drain
        self.status = status
        self._wanted.set()

    async def wait(self) -> None:
        """Return when a signal asked for the end."""
        await self._wanted.wait()


async def until_closed(duplex: Duplex, stop: Stop | None) -> None:
    """Wait until the peer has left, or end the connection when ``stop`` is asked for."""
    ended = asyncio.ensure_future(duplex.wait_closed())
    asked = asyncio.ensure_future(_never() if stop is None else stop.wait())
    try:
        await asyncio.wait({ended, asked}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            # 2026-07-28, Subscriptions: a server that shuts down completes its listen streams before it hangs up.
            duplex.service.end_listening()
            await duplex.close(drain=duplex.grace if stop is None else stop.drain)
        await ended
    finally:
        ended.cancel()
        asked.cancel()


async def _never() -> None:
    await asyncio.get_running_loop().create_future()


class Watchdog:
    """Ends the process after a while unless it is called off."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def arm(self, seconds: float, status: int) -> None:
        self.call_off()
        self._timer = threading.Timer(seconds, exit_now, (status,))
        self._timer.daemon = True
        self._timer.start()

    def call_off(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def exit_now(status: int) -> None:
    """End the process, whatever it is doing."""
    kill_all()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass
    os._exit(status)


class _Signals:
    """SIGINT and SIGTERM for as long as the program runs; only the main thread can have them."""

    def __init__(self, stop: Stop, watchdog: Watchdog, drain: float) -> None:
        self._stop = stop
        self._watchdog = watchdog
        self._drain = drain
        self._loop = asyncio.get_running_loop()
        self._previous: dict[int, Any] = {}
        self._seen = 0

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            # Not `loop.add_signal_handler`: that waits for the loop, and a handler may be blocking it.
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._received)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _received(self, number: int, frame: FrameType | None) -> None:
        self._seen += 1
        interrupted = number == signal.SIGINT
        status = EXIT_INTERRUPTED if interrupted else 0
        if self._seen > 1:
            exit_now(128 + number)
        drain = 0.0 if interrupted else self._drain
        limit = INTERRUPT_SECONDS if interrupted else drain + TEARDOWN_SECONDS
        self._watchdog.arm(limit, EXIT_INTERRUPTED if interrupted else EXIT_TERMINATED)
        self._loop.call_soon_threadsafe(self._stop.request, drain, status)


def run(main: Callable[[Stop], Awaitable[None]], *, drain: float = DRAIN_SECONDS, threads: int) -> int:
    """Run ``main`` until it returns; it must return soon after `Stop.wait` does. Gives the exit status."""
    watchdog = Watchdog()
    executor = DaemonExecutor(Threads(threads))
    stops: list[Stop] = []

    async def supervised() -> None:
        stop = Stop()
        stops.append(stop)
        asyncio.get_running_loop().set_default_executor(executor)
        with _Signals(stop, watchdog, drain):
            await main(stop)
            # From here on only leftovers of user code can hold us up: tasks that ignore their cancellation.
            watchdog.arm(TEARDOWN_SECONDS if stop.status == 0 else INTERRUPT_SECONDS, stop.status)

    try:
        with collecting_rarely(), reported():
            asyncio.run(supervised())
    finally:
        watchdog.call_off()
    return stops[0].status


def fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes an event loop: uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


_trim: Callable[[int], object] | None = None


def keep_blocks() -> None:
    """Have the C library use large blocks again, in a process that does nothing but serve; `give_back` ends that.

    Mapped anew, each page is emptied by the kernel when it is first written to: on a virtual machine a text of 8 MiB
    took seven milliseconds instead of one, and nobody else was served meanwhile.
    """
    global _trim
    import ctypes  # slow to load

    with suppress(OSError, AttributeError):  # only glibc has it
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_THRESHOLD, APART_BYTES)
        library.mallopt(M_TRIM_THRESHOLD, SPARE_BYTES)
        _trim = library.malloc_trim


def give_back() -> None:
    """Let the system have what `keep_blocks` has kept: called when nothing large is left."""
    if _trim is not None:
        _trim(0)


@contextmanager
def collecting_rarely() -> Generator[None, None, None]:
    """Have the collector of circles look less often, in a process that does nothing but serve.

    A call is a dozen objects it tracks, so with 64 under way it looked through all of them with every chunk that was
    read, for a tenth of the time of a call, and found nothing: what a call leaves behind has no circles. What was there
    before, a register of tools for example, stays as long as the process and need not be looked at again.
    """
    before = gc.get_threshold()
    gc.freeze()
    if 0 < before[0] <= COLLECT_USUALLY or before[0] == COLLECT_AT_START:
        gc.set_threshold(COLLECT_AFTER, *COLLECT_OLDER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
