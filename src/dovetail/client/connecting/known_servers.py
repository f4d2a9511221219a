"""What earlier connections learnt about a server: its era, and which HTTP transport it speaks.

Finding the era costs a round trip, or a whole process for a legacy server that dies of the question. The verdict
is therefore kept for the life of this process, per command line or URL, in a bounded table. It is a shortcut and
never a truth: when a connection made with it fails, `forget` it and negotiate in full.

Silence proves nothing: a modern server that was busy, or a proxy that lost the probe, looks like a legacy one. A
verdict that rests on silence is therefore `tentative`, and holds for `TENTATIVE` seconds only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

from msgspec import Struct

TENTATIVE = 300.0
"""Seconds until a server that was silent about the probe is probed again."""


class Verdict(Struct, frozen=True):
    """How a server was reached the last time."""

    era: str
    """"modern" or "legacy"."""
    revision: str
    transport: str = "stream"
    """"stream", "streamable" or "sse": for HTTP, which of its two transports answered."""
    tentative: bool = False
    """The probe was lost or not answered, rather than refused."""


class Verdicts:
    """A bounded table; the one not needed for longest makes room."""

    def __init__(self, limit: int = 1024, clock: Callable[[], float] = monotonic) -> None:
        self._known: OrderedDict[str, tuple[Verdict, float]] = OrderedDict()
        self._limit = limit
        self._clock = clock

    def get(self, key: str | None) -> Verdict | None:
        if key is None:
            return None
        known = self._known.get(key)
        if known is None:
            return None
        verdict, since = known
        if verdict.tentative and self._clock() - since >= TENTATIVE:
            del self._known[key]
            return None
        self._known.move_to_end(key)
        return verdict

    def remember(self, key: str | None, verdict: Verdict) -> None:
        if key is None:
            return
        before = self._known.get(key)
        # A connection that a tentative verdict led to proves no more than the verdict did.
        if before is not None and before[0] == verdict:
            return
        self._known[key] = (verdict, self._clock())
        self._known.move_to_end(key)
        while len(self._known) > self._limit:
            self._known.popitem(last=False)

    def forget(self, key: str | None) -> None:
        if key is not None:
            self._known.pop(key, None)

    def clear(self) -> None:
        self._known.clear()


VERDICTS = Verdicts()
"""The table of this process."""
