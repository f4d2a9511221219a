"""Which sessions their clients have ended. A session id is a sealed token that would go on opening otherwise.

Every session that is opened gets a place, and one that is ended a bit there: however many are opened and ended, each
costs one bit until its seal expires, and none is forgotten before. Workers of one address set and read the bits of each
other in files; it does not matter how the host makes its processes.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

ENDED_SLICE: Final = 14_400.0
"""Seconds; what is known of ended sessions is given up for so much time at once, when the last of it has expired."""

Place = tuple[int, str, int]
"""The slice of time in which it expires, the process that opened it, and its number there."""

_FILE: Final = "ended-"


class EndedSessions:
    """The ended sessions of this process; with ``folder``, those of all processes that were given it."""

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder
        self._process = os.urandom(4).hex()
        self._opened: dict[int, int] = {}  # sessions of this process, by slice
        self._bits: dict[tuple[int, str], bytearray] = {}
        self._files: dict[tuple[int, str], int] = {}

    @property
    def shared(self) -> bool:
        return self._folder is not None

    def place(self, expires: float, now: float) -> Place:
        """Where to look for a session that is opened now."""
        slice = int(expires // ENDED_SLICE)
        number = self._opened.get(slice, 0)
        if not number:
            self._forget(int(now // ENDED_SLICE))
        self._opened[slice] = number + 1
        return slice, self._process, number

    def add(self, place: Place) -> None:
        slice, process, number = place
        byte, mask = number >> 3, 1 << (number & 7)
        if self._folder is None:
            bits = self._bits.setdefault((slice, process), bytearray())
            bits.extend(bytes(max(0, byte + 1 - len(bits))))
            bits[byte] |= mask
            return
        file = os.open(self._path(slice, process), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.lockf(file, os.F_LOCK, 0)  # a byte has the bits of eight sessions; closing unlocks
            os.pwrite(file, bytes([_byte(file, byte) | mask]), byte)
        finally:
            os.close(file)

    def __contains__(self, place: Place) -> bool:
        slice, process, number = place
        byte, key = number >> 3, (slice, process)
        if self._folder is None:
            bits = self._bits.get(key, b"")
            found = bits[byte] if byte < len(bits) else 0
        else:
            if key not in self._files:
                try:
                    self._files[key] = os.open(self._path(slice, process), os.O_RDONLY)
                except FileNotFoundError:
                    return False  # none has been ended
            found = _byte(self._files[key], byte)
        return bool(found >> (number & 7) & 1)

    def _path(self, slice: int, process: str) -> str:
        assert self._folder is not None
        return os.path.join(self._folder, f"{_FILE}{slice}-{process}")

    def _forget(self, now: int) -> None:
        """What has expired opens no more, ended or not."""
        for slice in [slice for slice in self._opened if slice < now]:
            del self._opened[slice]
        for key in [key for key in self._bits if key[0] < now]:
            del self._bits[key]
        for key in [key for key in self._files if key[0] < now]:
            os.close(self._files.pop(key))
        for name in os.listdir(self._folder) if self._folder is not None else ():
            slice, _, _ = name.removeprefix(_FILE).partition("-")
            if name.startswith(_FILE) and int(slice) < now:
                with suppress(FileNotFoundError):  # another one was quicker
                    os.unlink(os.path.join(self._folder or "", name))


def _byte(file: int, at: int) -> int:
    return (os.pread(file, 1, at) or b"\0")[0]
