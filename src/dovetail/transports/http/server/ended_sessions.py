"""Which sessions their clients have ended. A session id is a sealed token that would go on opening otherwise.

Workers of one address must hear of each other's: they share a piece of memory that was mapped before they
were forked. Each worker writes into a part of its own, so there is nothing to lock; a look at the counters
of the others tells whether there is news.
"""

from __future__ import annotations

import hashlib
import mmap
from collections import OrderedDict
from typing import Final

DIGEST: Final = 16
REMEMBERED: Final = 10_000
"""Ids remembered by one process, and in the shared memory of one worker; older ones are forgotten first."""
_COUNTER: Final = 8


class Ended:
    """The ended sessions of one process."""

    def __init__(self, board: Board | None = None) -> None:
        self._known: OrderedDict[bytes, None] = OrderedDict()
        self._board = board

    def add(self, id: str) -> None:
        mark = digest(id)
        self._remember(mark)
        if self._board is not None:
            self._board.post(mark)

    def news(self) -> list[bytes]:
        """The digests that other workers have added since the last look."""
        if self._board is None:
            return []
        found = self._board.news()
        for mark in found:
            self._remember(mark)
        return found

    def __contains__(self, id: str) -> bool:
        return digest(id) in self._known

    def _remember(self, mark: bytes) -> None:
        self._known[mark] = None
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)


class Board:
    """The shared memory: a ring of digests for each worker. Make it before forking, `take_seat` after."""

    def __init__(self, workers: int, size: int = 1000) -> None:
        self._workers = workers
        self._size = size
        self._memory = mmap.mmap(-1, workers * (_COUNTER + size * DIGEST))
        self._seat = 0
        self._heard = bytes(workers * _COUNTER)

    def take_seat(self, number: int) -> None:
        """This process is worker ``number``. A successor of a dead worker takes its seat and goes on."""
        self._seat = number

    def post(self, mark: bytes) -> None:
        count = self._count(self._memory, self._seat)
        start = self._start(self._seat) + count % self._size * DIGEST
        self._memory[start : start + DIGEST] = mark
        # Last, so that nobody counts a digest that is not there yet.
        at = self._seat * _COUNTER
        self._memory[at : at + _COUNTER] = (count + 1).to_bytes(_COUNTER, "little")

    def news(self) -> list[bytes]:
        counters = self._memory[: self._workers * _COUNTER]
        if counters == self._heard:
            return []
        found: list[bytes] = []
        for seat in range(self._workers):
            before, now = self._count(self._heard, seat), self._count(counters, seat)
            for number in range(max(before, now - self._size), now):
                start = self._start(seat) + number % self._size * DIGEST
                found.append(self._memory[start : start + DIGEST])
        self._heard = counters
        return found

    def _start(self, seat: int) -> int:
        return self._workers * _COUNTER + seat * self._size * DIGEST

    @staticmethod
    def _count(counters: bytes | mmap.mmap, seat: int) -> int:
        return int.from_bytes(counters[seat * _COUNTER : (seat + 1) * _COUNTER], "little")


def digest(id: str) -> bytes:
    return hashlib.blake2b(id.encode(), digest_size=DIGEST).digest()
