"""All that a child process started, wherever it went.

A signal to a process group reaches everybody in it. Whoever began a session of its own has left the group, so on Linux
two more things are looked at: who was started by whom, and the mark that the child gets in its environment and hands
down to whatever it starts. Only a process that lost both its parents and its environment is not found. Systems without
``/proc`` have the group alone.
"""

from __future__ import annotations

import os
import secrets
import signal
from typing import Final

from ..settings import FAMILY_LOOKS

MARK: Final = "DOVETAIL_CHILD"
_PROC: Final = "/proc"

GUARD: Final = r"""
read -r child mark; read -r done && exit 0
[ -n "$mark" ] || exit 0
exec 2>/dev/null
family() {
    for file in $(grep -ls "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status); do
        set -- "${file#/proc/}"; set -- "${1%/status}"
        echo "$1"; family "$1"
    done
}
kill -s KILL -- "-$child" $(family "$child")
for file in $(grep -ls "DOVETAIL_CHILD=$mark" /proc/[0-9]*/environ); do
    file=${file#/proc/}; kill -s KILL "${file%/environ}"
done
"""
"""The same for a shell that waits for our end: it reads whom to look for, and then nothing until we are gone."""


class Family:
    """What descends from one child: give it ``mark`` in its environment, `look` before it ends, `kill` what is left."""

    def __init__(self) -> None:
        self.mark = secrets.token_hex(16)
        self._known: dict[int, bytes] = {}

    def look(self, child: int) -> None:
        """Take note of all that ``child`` started: once it is gone, nobody knows whose children they were."""
        parents: dict[int, list[int]] = {}
        begun: dict[int, bytes] = {}
        for pid in _processes():
            parent, begun[pid] = _stat(pid)
            parents.setdefault(parent, []).append(pid)
        waiting = [child]
        while waiting:
            found = parents.pop(waiting.pop(), [])
            waiting += found
            self._known.update((pid, begun[pid]) for pid in found)

    def kill(self) -> None:
        """Kill all that were seen and all that carry the mark, until there are none."""
        mark = f"{MARK}={self.mark}".encode()
        for _ in range(FAMILY_LOOKS):
            left = {pid for pid, begun in self._known.items() if _stat(pid)[1] == begun}
            self._known.clear()
            left.update(pid for pid in _processes() if mark in _read(pid, "environ"))
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass  # it was quicker
            if not left:
                return


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir(_PROC) if name.isdecimal()]
    except OSError:
        return []


def _stat(pid: int) -> tuple[int, bytes]:
    """Who started a process, and when it began: pids are used again."""
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return (int(fields[1]), fields[19]) if len(fields) > 19 else (0, b"")


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"{_PROC}/{pid}/{name}", "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""  # gone, or somebody else's
