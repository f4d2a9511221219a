"""What a process can tell of itself: how late its event loop is, and how much of its memory is used.

A `LoopPulse` is a thread that sends its event loop a beat every tenth of a second and times the answer.
If none comes for a quarter of a second the loop is blocked: what it is doing is logged, with the request it does it
for. Whoever listens is told the worst delay of each second, on the loop. One loop has one pulse, however many servers
it serves, and it ends with the last of them.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
import threading
import time
import traceback
from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Final
from weakref import WeakKeyDictionary

from msgspec import Struct

from ..core.channel import Call
from ..drivers.layering import subject_of
from .bounds import LOOP_BEAT, LOOP_BLOCKED, LOOP_LOGGED, LOOP_STACK, VITALS_EVERY

log = logging.getLogger("dovetail.health")

Listener = Callable[[float], None]


class LoopPulse:
    """The pulse of one event loop. Use `listen` and `leave`."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = threading.get_ident()
        self.listeners: set[Listener] = set()
        """Told once a second how late the loop was at worst."""
        self._answered, self._ended = threading.Event(), threading.Event()
        self._worst = 0.0
        self._alive = self._told = time.monotonic()
        """When the loop answered last, and when listeners were told last."""
        self._logged = 0.0

    def start(self) -> None:
        threading.Thread(target=self._beat, name="dovetail-pulse", daemon=True).start()

    def end(self) -> None:
        self._ended.set()
        self._answered.set()

    def _answer(self, sent: float) -> None:
        """On the loop."""
        self._alive = now = time.monotonic()
        self._worst = max(self._worst, now - sent)
        self._answered.set()
        if now - self._told >= VITALS_EVERY:
            worst, self._worst, self._told = self._worst, 0.0, now
            for listener in tuple(self.listeners):
                listener(worst)

    def _beat(self) -> None:
        """In the thread. An event is cleared before it can be set again: nothing else clears it."""
        while not self._ended.wait(LOOP_BEAT):
            self._answered.clear()
            if self._ended.is_set():
                return
            try:
                self._loop.call_soon_threadsafe(self._answer, time.monotonic())
            except RuntimeError:  # the loop is closed
                return
            if not self._answered.wait(max(self._alive + LOOP_BLOCKED - time.monotonic(), 0)):
                self._tell()
                while not self._answered.wait(VITALS_EVERY):
                    if self._loop.is_closed():
                        return

    def _tell(self) -> None:
        frame = sys._current_frames().get(self._thread)  # pyright: ignore[reportPrivateUsage]
        # A loop that only waits is late because the machine is busy with something else.
        if frame is None or _waits(frame) or time.monotonic() - self._logged < LOOP_LOGGED:
            return
        self._logged = time.monotonic()
        what = _what(frame)  # first: to read the lines of a stack takes time, in which it moves on
        stack = "".join(traceback.format_stack(frame, LOOP_STACK))
        log.warning("the event loop is blocked for over %g ms by %s:\n%s", LOOP_BLOCKED * 1000, what, stack)


_pulses: WeakKeyDictionary[AbstractEventLoop, LoopPulse] = WeakKeyDictionary()


def listen(listener: Listener) -> None:
    """Have ``listener`` told once a second how late the running loop was at worst, until it `leave`s."""
    loop = asyncio.get_running_loop()
    pulse = _pulses.get(loop)
    if pulse is None:
        pulse = _pulses[loop] = LoopPulse(loop)
        pulse.start()
    pulse.listeners.add(listener)


def leave(listener: Listener) -> None:
    """Tell ``listener`` no more, on whichever loop it listened; a pulse that nobody listens to ends."""
    for loop, pulse in list(_pulses.items()):
        pulse.listeners.discard(listener)
        if not pulse.listeners:
            del _pulses[loop]
            pulse.end()


def _waits(frame: FrameType) -> bool:
    return frame.f_code.co_filename.endswith(("selectors.py", "asyncio/base_events.py", "asyncio/runners.py"))


def _what(frame: FrameType | None) -> str:
    """The request that the code in ``frame`` runs for, as whoever runs it calls it."""
    while frame is not None:
        call = frame.f_locals.get("call") if "call" in frame.f_code.co_varnames else None
        if isinstance(call, Call):
            name = subject_of(call)
            return f"{call.method} {name!r}" if name else call.method
        frame = frame.f_back
    return "something that is no request"


# --- memory -----------------------------------------------------------------------------------------------------------

_V1: Final = "/sys/fs/cgroup/memory"
_V2: Final = "/sys/fs/cgroup"
_UNLIMITED: Final = 1 << 60


class Memory(Struct, frozen=True):
    """How much memory there may be, and where it is told how much there is."""

    limit: int
    group: str | None = None
    """The folder of the control group that is limited; None for this process alone."""

    def used(self) -> float:
        """The part of the limit that is used; 0 where nobody tells."""
        try:
            return (_resident() if self.group is None else _working_set(self.group)) / self.limit
        except (OSError, ValueError, IndexError):
            return 0.0


def memory(limit: int | None) -> Memory | None:
    """What is limited: this process to ``limit`` bytes, or else its control group, if that is."""
    if limit is not None:
        return Memory(limit)
    try:
        lines = _text("/proc/self/cgroup").splitlines()
    except OSError:
        return None
    for line in lines:
        _, names, path = line.split(":", 2)
        root = _V2 if not names else _V1 if "memory" in names.split(",") else None
        # In a container the path is often that of the host, and the group is the root.
        for folder in () if root is None else (f"{root}{path}", root):
            found = _limit(f"{folder}/{'memory.max' if root is _V2 else 'memory.limit_in_bytes'}")
            if found is not None:
                return Memory(found, folder)
    return None


def release() -> None:
    """Give back what is held but not used: circles, and pages that the allocator keeps for later."""
    import ctypes  # seldom needed, and slow to load

    gc.collect()
    with suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)


def _text(file: str) -> str:
    with open(file) as lines:
        return lines.read()


def _limit(file: str) -> int | None:
    try:
        limit = int(_text(file))
    except (OSError, ValueError):  # none, or "max"
        return None
    return limit if limit < _UNLIMITED else None


def _resident() -> int:
    return int(_text("/proc/self/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _working_set(group: str) -> int:
    """What the kernel cannot take back by forgetting files that nobody has used lately."""
    second = os.path.exists(f"{group}/memory.current")
    total = int(_text(f"{group}/{'memory.current' if second else 'memory.usage_in_bytes'}"))
    name = "inactive_file " if second else "total_inactive_file "
    lines = _text(f"{group}/memory.stat").splitlines()
    return total - sum(int(line.split()[1]) for line in lines if line.startswith(name))
