"""Messages of WebSockets whose end has not come: they have a total and a time, as unfinished bodies have.

Hosts keep them and tell nobody. But the kernel knows what has been read of a connection, we know what came of it as
messages, and messages come one after the other: the rest is what its host keeps. Linux alone tells, and not of Unix
sockets; elsewhere there is only the host's own bound of each message.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ....core.budget import Account
from ....settings import SMALL_MESSAGE, UNFINISHED_GROWTH
from .kernel import Peer, Seen, read_from


class Arriving(Struct, eq=False):
    """What has come over one WebSocket and is no message yet."""

    read: int
    """Bytes the host had read at the last look."""
    heard: int = 0
    """Bytes of messages since the last look."""
    size: int = 0
    since: float = 0.0
    cut: bool = False
    """It was hung up on, and its host has not let go of it yet."""

    def look(self, read: int, now: float) -> None:
        came = read - self.read
        rest = max(0, self.size + came - self.heard)
        if self.heard or self.size <= SMALL_MESSAGE:
            self.since = now
        # What is left came after the message that has ended meanwhile; so the heads of frames do not add up.
        self.size = min(rest, came) if self.heard else rest
        self.read, self.heard = read, 0


def begin(scope: Mapping[str, Any], peer: Peer | None) -> Arriving | None:
    """Count from here on what comes over the connection of a handshake; None where nobody knows."""
    local = scope.get("server")
    read = (
        None if peer is None or not local or local[1] is None else read_from(peer, (local[0], int(local[1])))
    )
    return None if read is None else Arriving(read)


class Unfinished:
    """What the WebSockets of one app have begun to send.

    Ask for the `excess` every now and then, and whenever this process has `grown`.
    """

    def __init__(self, account: Account, patience: float) -> None:
        self._account = account
        self._patience = patience
        self._kept = 0
        self._memory = 0

    def grown(self) -> bool:
        """Whether this process has grown so much since the last look that somebody may be sending without end."""
        return _resident() - self._memory > UNFINISHED_GROWTH

    def excess(self, sockets: Mapping[bytes, Arriving], seen: Mapping[bytes, Seen], now: float) -> set[bytes]:
        """Take what the kernel knows; whom to hang up on: the newest over the total, and who takes too long."""
        self._memory = _resident()
        self._account.give(self._kept)
        self._kept = 0
        alive = {key: one for key, one in sockets.items() if not one.cut}
        for key, one in alive.items():
            known = seen.get(key)
            if known is not None and known.read is not None:
                one.look(known.read, now)
        # A host that reads much of others lets go of the dead late. They get half of the total: the oldest keep theirs.
        dead = sum(one.size for one in sockets.values() if one.cut)
        self._take(min(dead, self._account.limit // 2))
        found: set[bytes] = set()
        for key, one in sorted(alive.items(), key=lambda item: item[1].since):
            size = one.size if one.size > SMALL_MESSAGE else 0
            if (size and now - one.since > self._patience) or not self._take(size):
                one.cut = True
                found.add(key)
        return found

    def _take(self, size: int) -> bool:
        taken = self._account.take(size)
        self._kept += size if taken else 0
        return taken


def _resident() -> int:
    if sys.platform != "linux":
        return 0
    with open("/proc/self/statm", "rb", buffering=0) as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
