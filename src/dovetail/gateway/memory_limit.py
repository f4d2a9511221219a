"""A child of a gateway that may not have all the memory of the machine."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

_LIMITED: Final = """
import os, resource, sys
most = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_DATA, (most, most))
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit(f"cannot start {sys.argv[2]}: {error.strerror}")
"""


def confined(command: Sequence[str], memory: int | None) -> list[str]:
    """``command``, which with ``memory`` gets no more bytes than that: it, and each process that it starts.

    The limit is set by a process that then becomes the command: set from outside, it would come too late for a launcher
    that has started another one already. It counts what is written to (RLIMIT_DATA), since runtimes reserve addresses
    by the terabyte; Windows has none.
    """
    if memory is None or sys.platform == "win32":
        return list(command)
    return [sys.executable, "-I", "-S", "-c", _LIMITED, str(memory), *command]
