"""The metric values of one process, in a file that other processes can read.

A registry is an array of floats, written directly: to increase a counter is one assignment. An index lists where each
series begins. In a shared folder both are one file, the array first. A process locks its file while it runs, so a
reader knows whether the process is still running.
"""

from __future__ import annotations

import mmap
import os
import secrets
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import msgspec
from msgspec import Struct

from .metric_definitions import FAMILIES, MetricFamily

CELLS: Final = 32_768
"""The most values of one process, 8 bytes each; the file grows as it is written."""
NAME_LENGTH: Final = 128
"""Characters of a label."""
OTHER: Final = "(other)"
"""The label of the shared series."""
LOCK_TRIES: Final = 50
"""Attempts to lock the folder."""
LOCK_PAUSE: Final = 0.002
"""Seconds between two attempts to lock the folder."""


Labels = tuple[str, ...]
_SIZE: Final = CELLS * 8
_LOCK: Final = "lock"
_ENDED: Final = "ended.json"
_SUFFIX: Final = ".cells"
_NOWHERE: Final = CELLS - 32
"""Cells for further series when the registry is full; they are never reported."""


class Series(Struct, frozen=True, array_like=True):
    """A series: its metric, labels, and the offset of its values."""

    family: str
    labels: Labels
    start: int


class Numbers(Struct, frozen=True, array_like=True):
    """The values of one series."""

    family: str
    labels: Labels
    values: list[float]


_read_series = msgspec.json.Decoder(Series).decode
_read_numbers = msgspec.json.Decoder(list[Numbers]).decode


class MetricRegistry:
    """The values of this process; in ``file``, if there is one (see `enter`)."""

    def __init__(self, file: int = -1, path: str = "") -> None:
        self._file, self.path = file, path
        self.cells = memoryview(bytearray(_SIZE) if file < 0 else mmap.mmap(file, _SIZE)).cast("d")
        self._series: dict[tuple[str, Labels], Series] = {}
        self._counts: dict[str, int] = {}
        self._used = 0
        self._written = _SIZE

    def place(self, family: MetricFamily, labels: Labels = ()) -> int:
        """Return the offset of a series; create it if there is space, else return the shared one."""
        found = self._series.get((family.name, labels))
        if found is not None:
            return found.start
        other = (OTHER,) * len(labels)
        if self._counts.get(family.name, 0) >= family.most and labels != other:
            return self.place(family, other)
        if self._used + family.width > _NOWHERE:
            return _NOWHERE
        made = Series(family.name, tuple(label[:NAME_LENGTH] for label in labels), self._used)
        if self._file >= 0:
            try:
                self._written += os.pwrite(self._file, msgspec.json.encode(made) + b"\n", self._written)
            except OSError:
                return _NOWHERE  # the disk is full: calls must not fail for that
        self._series[family.name, labels] = made
        self._counts[family.name] = self._counts.get(family.name, 0) + 1
        self._used += family.width
        return made.start

    def numbers(self) -> Iterator[Numbers]:
        """Return all values of this process."""
        return _numbers(list(self._series.values()), self.cells)

    def close(self) -> None:
        """Release the file, so that the values count as those of a dead process; in a fork, only close it."""
        if self._file >= 0:
            _ours.pop(self.path, None)
            os.close(self._file)
            self._file = -1


_ours: dict[str, MetricRegistry] = {}
"""The registries of this process: to open and close one of their files would release its lock."""


def _numbers(series: Iterable[Series], cells: memoryview[float]) -> Iterator[Numbers]:
    for one in series:
        family = FAMILIES.get(one.family)
        if family is not None:
            values = [float(value) for value in cells[one.start : one.start + family.width]]
            yield Numbers(one.family, one.labels, values)


def _read(data: bytes) -> Iterator[Numbers]:
    lines = data[_SIZE:].split(b"\n")[:-1]  # the last entry may be incomplete
    return _numbers(map(_read_series, lines), memoryview(data[:_SIZE]).cast("d"))


# --- several processes ---------------------------------------------------------------------------------------


def enter(folder: str) -> MetricRegistry:
    """Return a registry of this process that other processes with the same ``folder`` can read.

    Raises:
        OSError: the folder cannot be written to, or the disk is full.
    """
    import fcntl  # systems without it have no workers

    os.makedirs(folder, mode=0o700, exist_ok=True)
    with _alone(folder):
        _clear_up(folder)
        path = os.path.join(folder, f"{secrets.token_hex(8)}{_SUFFIX}")
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            # Allocate all of it: a write to a hole of a mapped file on a full disk kills the process.
            os.posix_fallocate(file, 0, _SIZE)
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            os.unlink(path)
            raise
        table = _ours[path] = MetricRegistry(file, path)
    return table


@contextmanager
def _alone(folder: str) -> Generator[None]:
    """Lock the folder against readers and cleanup of other processes.

    The lock is normally held for milliseconds. If it is not released in time, its holder was suspended, and this
    process continues without it: values that are reported twice are better than a server that hangs.
    """
    import fcntl

    file = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        for _ in range(LOCK_TRIES):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(LOCK_PAUSE)
        yield
    finally:
        os.close(file)


def gather(folder: str) -> list[Numbers]:
    """Return the values of all processes in ``folder``, with the counters of dead ones."""
    with _alone(folder):
        found = _ended(folder)
        for path in _tables(folder):
            numbers, alive = _look(path)
            found += numbers if alive else _lasting(numbers)
    return found


def _clear_up(folder: str) -> None:
    """Merge the files of dead processes into one."""
    dead = [(path, numbers) for path in _tables(folder) for numbers, alive in (_look(path),) if not alive]
    if not dead:
        return
    together = merge([*_ended(folder), *_lasting(one for _, numbers in dead for one in numbers)])
    path = os.path.join(folder, _ENDED)
    with open(path + ".new", "wb") as file:
        file.write(msgspec.json.encode(together))
    os.replace(path + ".new", path)
    for path, _ in dead:
        os.unlink(path)


def merge(numbers: Iterable[Numbers]) -> list[Numbers]:
    """Combine the values, with one entry for each series."""
    found: dict[tuple[str, Labels], Numbers] = {}
    for one in numbers:
        key = one.family, one.labels
        before = found.get(key)
        if before is None:
            found[key] = one
        else:
            join = {"sum": sum, "max": max, "min": min}[FAMILIES[one.family].together]
            values = [float(join(pair)) for pair in zip(before.values, one.values, strict=True)]
            found[key] = Numbers(one.family, one.labels, values)
    return list(found.values())


def _tables(folder: str) -> list[str]:
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(_SUFFIX)]


def _ended(folder: str) -> list[Numbers]:
    with suppress(FileNotFoundError), open(os.path.join(folder, _ENDED), "rb") as file:
        return _read_numbers(file.read())
    return []


def _lasting(numbers: Iterable[Numbers]) -> list[Numbers]:
    return [one for one in numbers if FAMILIES[one.family].outlives]


def _look(path: str) -> tuple[list[Numbers], bool]:
    """Read a registry, and whether its process is alive."""
    import fcntl

    ours = _ours.get(path)
    if ours is not None:
        return list(ours.numbers()), True
    with open(path, "r+b") as file:
        numbers = list(_read(file.read()))
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return numbers, True
    return numbers, False
