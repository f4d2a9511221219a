"""The registry of ended sessions. A session id is a sealed token, which would stay valid otherwise.

Every session gets a slot when it is opened, and its bit is set when it is ended. So an ended session costs
one bit until its token expires, and none is forgotten before. Workers of one address read and write each
other's bits in files, whatever server started the processes.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

ENDED_SLICE: Final = 14_400.0
"""Seconds per time slice. The bits of one slice are dropped together, when the last of them has expired."""

SessionSlot = tuple[int, str, int]
"""The time slice of the expiry, the process that opened the session, and its number there."""

_FILE: Final = "ended-"


class EndedSessions:
    """The ended sessions of this process; with ``folder``, of all processes that use the folder."""

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder
        self._process = os.urandom(4).hex()
        self._opened: dict[int, int] = {}  # number of sessions opened by this process, by slice
        self._bits: dict[tuple[int, str], bytearray] = {}
        self._files: dict[tuple[int, str], int] = {}

    @property
    def shared(self) -> bool:
        return self._folder is not None

    def assign_slot(self, expires: float, now: float) -> SessionSlot:
        """Assign a slot to a session that is opened now."""
        slice = int(expires // ENDED_SLICE)
        number = self._opened.get(slice, 0)
        if not number:
            self._forget(int(now // ENDED_SLICE))
        self._opened[slice] = number + 1
        return slice, self._process, number

    def add(self, place: SessionSlot) -> None:
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

    def __contains__(self, place: SessionSlot) -> bool:
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
                    return False  # no session of this slice has ended
            found = _byte(self._files[key], byte)
        return bool(found >> (number & 7) & 1)

    def _path(self, slice: int, process: str) -> str:
        assert self._folder is not None
        return os.path.join(self._folder, f"{_FILE}{slice}-{process}")

    def _forget(self, now: int) -> None:
        """Drop expired slices; expired sessions cannot be opened anyway."""
        for slice in [slice for slice in self._opened if slice < now]:
            del self._opened[slice]
        for key in [key for key in self._bits if key[0] < now]:
            del self._bits[key]
        for key in [key for key in self._files if key[0] < now]:
            os.close(self._files.pop(key))
        for name in os.listdir(self._folder) if self._folder is not None else ():
            slice, _, _ = name.removeprefix(_FILE).partition("-")
            if name.startswith(_FILE) and int(slice) < now:
                with suppress(FileNotFoundError):  # another process deleted it
                    os.unlink(os.path.join(self._folder or "", name))


def _byte(file: int, at: int) -> int:
    return (os.pread(file, 1, at) or b"\0")[0]
