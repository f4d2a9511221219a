"""Which sessions their clients have ended. A session id is a sealed token that would go on opening otherwise.

Workers of one address must hear of each other's: they append to one file and read what the others have appended. There
is nothing to lock, since an append of a few bytes is one; and it does not matter how the host makes its processes.
"""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from typing import Final

from ....settings import ENDED_SESSIONS

_DIGEST: Final = 16


class EndedSessions:
    """The ended sessions this process knows of; with ``path``, those of all processes that were given it."""

    def __init__(self, path: str | None = None) -> None:
        self._known: OrderedDict[bytes, None] = OrderedDict()
        self._file = None if path is None else os.open(path, os.O_RDWR | os.O_APPEND)
        self._read = 0
        self.shared = path is not None

    def add(self, id: str) -> None:
        mark = digest(id)
        self._remember(mark)
        if self._file is not None:
            os.write(self._file, mark)

    def news(self) -> set[bytes]:
        """The digests that were added since the last look, by whomever."""
        if self._file is None:
            return set()
        size = os.fstat(self._file).st_size
        if size == self._read:
            return set()
        data = os.pread(self._file, size - self._read, self._read)
        found = [data[at : at + _DIGEST] for at in range(0, len(data) - _DIGEST + 1, _DIGEST)]
        self._read += len(found) * _DIGEST
        for mark in found:
            self._remember(mark)
        return set(found)

    def __contains__(self, id: str) -> bool:
        return digest(id) in self._known

    def __len__(self) -> int:
        return len(self._known)

    def _remember(self, mark: bytes) -> None:
        self._known[mark] = None
        if len(self._known) > ENDED_SESSIONS:
            self._known.popitem(last=False)


def digest(id: str) -> bytes:
    return hashlib.blake2b(id.encode(), digest_size=_DIGEST).digest()
