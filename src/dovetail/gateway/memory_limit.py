"""A memory limit for child processes of a gateway."""

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


def with_memory_limit(command: Sequence[str], memory: int | None) -> list[str]:
    """Return ``command`` wrapped in a process that limits itself to ``memory`` bytes and then runs it.

    The limit also applies to its child processes. It counts written memory (RLIMIT_DATA), because runtimes
    reserve terabytes of addresses. It is set from inside: set from outside, it would not reach a process that
    a launcher has already started. Windows does not support it.
    """
    if memory is None or sys.platform == "win32":
        return list(command)
    return [sys.executable, "-I", "-S", "-c", _LIMITED, str(memory), *command]
