"""Print the stacks of all tasks and threads of a process on request, to diagnose a hang."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import signal
import sys
from contextlib import suppress
from types import FrameType

ASKED = signal.SIGUSR1


def tell_when_asked() -> None:
    """On that signal, write the stack of every thread and of every task that is not done to stderr."""
    signal.signal(ASKED, _tell)
    faulthandler.register(ASKED, chain=True)  # it speaks first, also where Python itself is stuck


def ask(pid: int) -> None:
    """Let a process say where it stands: this one, or one that listens to the signal."""
    if pid == os.getpid():
        faulthandler.dump_traceback(sys.__stderr__)
        _tell(ASKED, None)
        return
    with suppress(ProcessLookupError):
        os.kill(pid, ASKED)


def _tell(_signal: int, _frame: FrameType | None) -> None:
    for task in [one for one in gc.get_objects() if issubclass(type(one), asyncio.Task) and not one.done()]:
        print(f"task {task.get_name()}:", file=sys.stderr)
        task.print_stack(limit=8, file=sys.stderr)
    sys.stderr.flush()
