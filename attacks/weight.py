"""How long something is fuzzed, and whether it hangs or grows meanwhile."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from .report import GotThrough
from .stacks import ask

GROWTH = 32 << 20
"""Bytes a process may grow between the end of the first quarter, when it is warm, and the end."""
PATIENCE = 60.0
LOOK = 2.0
"""Seconds for one round, and between two looks whether they are over."""
STUCK = 300.0
"""Seconds in which our own loop comes round at least once, however busy the machine is."""
T = TypeVar("T")
PAGE, TICKS = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> int:
    """Bytes of memory that a process has; none once it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def kept_waiting(pid: int) -> dict[int, float]:
    """Seconds that each thread of a process was ready to run and others ran."""
    found: dict[int, float] = {}
    with suppress(OSError):
        for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with suppress(OSError, IndexError):
                found[int(path.parent.name)] = int(path.read_text().split()[1]) / 1e9
    return found


def unserved() -> float:
    """Seconds that this thread was ready to run and others ran."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0  # no Linux


def stolen() -> float:
    """Seconds that the machine itself was kept from running by others on the same iron, on the unluckiest core."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return 0.0
    return max((int(line.split()[8]) / TICKS for line in lines if re.match(r"cpu\d", line)), default=0.0)


class Waiting:
    """How long some processes have had work and no core for it.

    Asked again and again, it adds up what the unluckiest thread of each waited in between: which one that is changes,
    and threads come and go.
    """

    def __init__(self, pids: tuple[int, ...]) -> None:
        self._pids = pids
        self._seconds = 0.0
        self._known = {pid: kept_waiting(pid) for pid in pids}
        self._stolen, self._looked = stolen(), time.monotonic()

    def seconds(self) -> float:
        waited, looked, gone = 0.0, time.monotonic(), stolen()
        for pid in self._pids:
            before, now = self._known[pid], kept_waiting(pid)
            waited += max((now[thread] - before.get(thread, 0.0) for thread in now), default=0.0)
            self._known[pid] = now
        # Two that wait at the same time lose it once.
        self._seconds += min(waited + gone - self._stolen, looked - self._looked)
        self._stolen, self._looked = gone, looked
        return self._seconds


async def in_time(work: Awaitable[T], *pids: int, said: bytearray | None = None) -> T:
    """What comes of ``work``, which these processes do; ``said`` is the log of the one that is watched.

    If the event loop is blocked, end the process and print its stack.

    Raises:
        GotThrough: nothing does within our patience, which does not count while a busy machine lets none of them run.
    """
    task = asyncio.ensure_future(work)
    begun, waiting = time.monotonic(), Waiting(pids)
    try:
        while True:
            faulthandler.dump_traceback_later(STUCK, exit=True)
            if (await asyncio.wait({task}, timeout=LOOK))[0]:
                return task.result()
            if time.monotonic() - begun - waiting.seconds() > PATIENCE:
                raise GotThrough(await _where(task, pids, said or bytearray()))
    finally:
        faulthandler.cancel_dump_traceback_later()


async def _where(task: asyncio.Future[T], pids: tuple[int, ...], said: bytearray) -> str:
    """What hangs: each process writes where it stands, and the task may say what it waited for."""
    for pid in pids:
        ask(pid)
    task.cancel()
    await asyncio.wait({task}, timeout=LOOK)
    why = task.exception() if task.done() and not task.cancelled() else None
    return f"something hangs {why or ''} {said[-8000:].decode(errors='replace')}"


class Weight:
    """Return whether the time is over; measure the memory of the target."""

    def __init__(self, memory: Callable[[], int], seconds: float) -> None:
        self._memory = memory
        self._begun = time.monotonic()
        self._seconds = seconds
        self._warm = self._grown = 0

    def over(self) -> bool:
        """Whether the time is over.

        Raises:
            GotThrough: it has grown since it was warm.
        """
        gone = time.monotonic() - self._begun
        if gone > self._seconds / 4:
            now = self._memory()
            self._warm = self._warm or now
            self._grown = now - self._warm
            if self._grown > GROWTH:
                raise GotThrough(f"grown by {self} in {gone:.0f} s")
        return gone >= self._seconds

    def __str__(self) -> str:
        return f"{self._grown / (1 << 20):+.1f} MiB after the first quarter"


def mine() -> int:
    """The memory of this process."""
    return resident(os.getpid())
