"""What earlier connections learnt about a server: its era, and which HTTP transport it speaks.

Finding the era costs a round trip, or a whole process for a legacy server that dies of the question. The verdict
is therefore kept for the life of this process, per command line or URL, in a bounded table. It is a shortcut and
never a truth: when a connection made with it fails, `forget` it and negotiate in full.
"""

from __future__ import annotations

from collections import OrderedDict

from msgspec import Struct


class Verdict(Struct, frozen=True):
    """How a server was reached the last time."""

    era: str
    """"modern" or "legacy"."""
    revision: str
    transport: str = "stream"
    """"stream", "streamable" or "sse": for HTTP, which of its two transports answered."""


class Verdicts:
    """A bounded table; the one not needed for longest makes room."""

    def __init__(self, limit: int = 1024) -> None:
        self._known: OrderedDict[str, Verdict] = OrderedDict()
        self._limit = limit

    def get(self, key: str | None) -> Verdict | None:
        if key is None:
            return None
        verdict = self._known.get(key)
        if verdict is not None:
            self._known.move_to_end(key)
        return verdict

    def remember(self, key: str | None, verdict: Verdict) -> None:
        if key is None:
            return
        self._known[key] = verdict
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
