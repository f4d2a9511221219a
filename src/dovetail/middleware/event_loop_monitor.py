"""`EventLoopMonitor`: measure the lag of the event loop, and log what blocks it.

It measures only while requests arrive: a request wakes it for one second. In that time a timer fires every
tenth of a second, and then the worst delay is reported. Between requests no timer is set, so an idle process
sleeps.

Only another thread can see what blocks the loop. That thread runs on request, or if the event loop is in
debug mode (``PYTHONASYNCIODEBUG=1``). It never runs on platforms without threads (WebAssembly).
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from asyncio import AbstractEventLoop
from collections.abc import Callable
from types import FrameType
from typing import Final

from ..core.channel import Call
from ..drivers.heartbeat import Heartbeat
from ..drivers.middleware_chain import subject_of
from ..drivers.thread_pool import HAS_THREADS

RESOURCE_CHECK_INTERVAL: Final = 1.0
"""Seconds between two checks of the event loop and the memory."""
LOOP_HEARTBEAT_INTERVAL: Final = 0.1
"""Seconds between two heartbeats of an event loop."""
LOOP_BLOCKED_THRESHOLD: Final = 0.25
"""Seconds without a heartbeat after which an event loop is blocked."""
LOOP_LOG_INTERVAL: Final = 1.0
"""Seconds between two log messages about a blocked event loop."""
LOOP_STACK_DEPTH: Final = 30
"""Stack frames shown of a blocked event loop."""


log = logging.getLogger("dovetail.health")


class EventLoopMonitor:
    """Measures the lag of the event loop it is started on.

    ``report`` receives the worst delay of each measured second. It returns whether to measure for another
    second without a request.
    """

    def __init__(self, report: Callable[[float], bool]) -> None:
        self._report = report
        self._heartbeat: Heartbeat | None = None
        self._watchdog: _Watchdog | None = None
        self._worst = self._due = self._until = 0.0
        self.asleep = False
        """Whether the next request should call `wake`."""

    def start(self, *, watchdog: bool = False) -> None:
        """Measure once now, and then whenever a request arrives."""
        loop = asyncio.get_running_loop()
        self._heartbeat = Heartbeat(LOOP_HEARTBEAT_INTERVAL, self._beat)
        if HAS_THREADS and (watchdog or loop.get_debug()):
            self._watchdog = _Watchdog(loop)
        self.wake()

    def stop(self) -> None:
        self.asleep = False
        if self._heartbeat is not None:
            self._heartbeat.stop()
        if self._watchdog is not None:
            self._watchdog.stop()
        self._heartbeat = self._watchdog = None

    def wake(self) -> None:
        """Measure for one second. Call it on the event loop if `asleep`."""
        if self._heartbeat is None:
            return
        self.asleep = False
        now = time.monotonic()
        self._worst, self._until = 0.0, now + RESOURCE_CHECK_INTERVAL
        self._expect(now)
        self._heartbeat.start()

    def _expect(self, now: float) -> None:
        self._due = now + LOOP_HEARTBEAT_INTERVAL
        if self._watchdog is not None:
            self._watchdog.expect(self._due)

    def _beat(self) -> bool:
        now = time.monotonic()
        self._worst = max(self._worst, now - self._due)
        if now >= self._until:
            if not self._report(self._worst):
                self.asleep = True
                if self._watchdog is not None:
                    self._watchdog.expect(None)
                return False
            self._worst, self._until = 0.0, now + RESOURCE_CHECK_INTERVAL
        self._expect(now)
        return True


class _Watchdog:
    """A thread that logs what the event loop does if a heartbeat is overdue. Otherwise it sleeps."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._due: float | None = None
        self._expected, self._ended = threading.Event(), threading.Event()
        threading.Thread(target=self._run, name="dovetail-watchdog", daemon=True).start()

    def expect(self, due: float | None) -> None:
        """Expect a heartbeat at ``due``, or none if None."""
        self._due = due
        if due is None:
            self._expected.clear()
        elif not self._expected.is_set():
            self._expected.set()

    def stop(self) -> None:
        self._ended.set()
        self._expected.set()

    def _run(self) -> None:
        logged_beat, logged_at = None, -LOOP_LOG_INTERVAL
        while not self._ended.wait(LOOP_HEARTBEAT_INTERVAL) and not self._loop.is_closed():
            self._expected.wait()
            due, now = self._due, time.monotonic()
            if (
                due is None
                or due == logged_beat
                or now - due < LOOP_BLOCKED_THRESHOLD - LOOP_HEARTBEAT_INTERVAL
            ):
                continue
            if now - logged_at >= LOOP_LOG_INTERVAL and self._log():
                logged_beat, logged_at = due, now

    def _log(self) -> bool:
        frame = sys._current_frames().get(self._loop_thread)  # pyright: ignore[reportPrivateUsage]
        # An idle loop is late because the machine is busy.
        if frame is None or _is_idle(frame):
            return False
        what = _current_request(frame)  # first: formatting a stack takes time, in which it changes
        stack = "".join(traceback.format_stack(frame, LOOP_STACK_DEPTH))
        log.warning(
            "event loop blocked for over %g ms by %s:\n%s", LOOP_BLOCKED_THRESHOLD * 1000, what, stack
        )
        return True


def _is_idle(frame: FrameType) -> bool:
    return frame.f_code.co_filename.endswith(("selectors.py", "asyncio/base_events.py", "asyncio/runners.py"))


def _current_request(frame: FrameType | None) -> str:
    """Return the request that the code in ``frame`` serves."""
    while frame is not None:
        call = frame.f_locals.get("call") if "call" in frame.f_code.co_varnames else None
        if isinstance(call, Call):
            name = subject_of(call)
            return f"{call.method} {name!r}" if name else call.method
        frame = frame.f_back
    return "code outside of a request"
