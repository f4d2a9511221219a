"""What all peers of one server hold together: every bound of one peer that is worth attacking has its total here.

Whoever is about to keep something for a peer asks first (`Account.take`) and gives it back when it is over. The newest
is refused, so nobody loses what was taken before; and what is small is not counted (`settings.SMALL_MESSAGE`), so peers
that ask for little never notice that others ask for much.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sized
from typing import Protocol
from weakref import ref

from msgspec import Struct

from ..errors import Refusal
from ..settings import BUSY_SECONDS, CALLERS_LOOKED_AT, CALLS_FREE, Limits


class Account(Struct, eq=False):
    """One thing there is only so much of."""

    limit: int
    taken: int = 0
    used: bool = False
    """Something has been taken since somebody last asked."""

    def take(self, amount: int) -> bool:
        """Whether there is so much left; if so it is taken. `give` it back."""
        if self.taken + amount > self.limit:
            return False
        self.taken += amount
        self.used = True
        return True

    def give(self, amount: int) -> None:
        self.taken -= amount

    def rested(self) -> bool:
        """Whether nothing is taken, nor has been since somebody last asked."""
        rested, self.used = not (self.taken or self.used), False
        return rested


class CallingPeer(Protocol):
    """Whoever may have calls under way: a connection, a session."""

    places: int
    """How many it may have; beyond them it asks for more."""

    @property
    def in_flight(self) -> Sized: ...

    @property
    def limits(self) -> Limits: ...


class CallPlaces:
    """Calls of all peers that are under way, beyond the first few of each, which are not counted.

    Nobody says when a call is over: that would cost every call something. Once there are no places left, some of those
    who have any are looked at, each in its turn: a refusal must not cost more, however many there are.
    """

    def __init__(self, limit: int) -> None:
        self._left, self._scarce = limit, limit // 2
        self._held: OrderedDict[ref[CallingPeer], int] = OrderedDict()

    def full(self, caller: CallingPeer) -> Refusal | None:
        """Why ``caller`` may have no further call under way, if so."""
        if len(caller.in_flight) >= caller.limits.max_requests_per_connection:
            return too_many()
        return None if self.has(1, caller) else busy("requests in flight")

    def has(self, count: int, caller: CallingPeer) -> bool:
        """Whether there are places for so many more calls of ``caller``, which has them from now on.

        It has no more than its own limit: what is beyond that is refused one by one.
        """
        most = caller.limits.max_requests_per_connection
        wanted = min(len(caller.in_flight) + count, most)
        if wanted <= caller.places:
            return True
        more = wanted - caller.places
        if more > self._left:
            self._look()
            more = wanted - caller.places  # it may have been looked at, too
        elif self._left > self._scarce:
            more = max(more, min(caller.places, most - caller.places, self._left - self._scarce))
        if more > self._left:
            return False
        self._left -= more
        caller.places += more
        self._held[ref(caller, self._gone)] = caller.places - CALLS_FREE
        return True

    def _look(self) -> None:
        """Have back what some of the callers do not need any more."""
        for _ in range(min(CALLERS_LOOKED_AT, len(self._held))):
            key, places = self._held.popitem(last=False)
            if (caller := key()) is not None:
                caller.places = min(caller.places, max(CALLS_FREE, len(caller.in_flight)))
                if caller.places > CALLS_FREE:
                    self._held[key] = caller.places - CALLS_FREE
                places -= caller.places - CALLS_FREE
            self._left += places

    def _gone(self, key: ref[CallingPeer]) -> None:
        self._left += self._held.pop(key, 0)


class Budget:
    """The accounts of one server."""

    def __init__(self, limits: Limits) -> None:
        self.messages = Account(limits.max_buffered_bytes)
        """Bytes of large messages that are being read or worked on."""
        self.unfinished = Account(limits.max_buffered_bytes)
        """Bytes of large lines and frames whose end has not come: who sends them cannot be answered yet."""
        self.answers = Account(limits.max_buffered_bytes)
        """Bytes of large answers that gather in a batch, or that their clients have not taken."""
        self.addresses = Account(limits.all_addresses)
        """Bytes of addresses that are subscribed to."""
        self.abandoned = Account(limits.abandoned_calls)
        """Legacy calls over HTTP whose clients have hung up: that does not cancel them."""
        self.ending = Account(max(1, limits.max_concurrent_requests))
        """Calls that were cancelled, by a word of their clients or because these have left, and have not ended."""
        self.calls = CallPlaces(limits.max_concurrent_requests)


def share_of(limit: int) -> int:
    """How much of what all have together one of them gets: half, so that others find some."""
    return max(1, limit // 2)


def unread(account: Account, held: int, size: int) -> Refusal | None:
    """Why a peer that has not taken ``held`` bytes of large answers gets no ``size`` more; half of all is for one."""
    if held and held + size > share_of(account.limit):
        return Refusal(1069, message="take what was sent before you ask for more", retry_after=BUSY_SECONDS)
    return busy("large answers") if account.taken + size > account.limit else None


def busy(what: str) -> Refusal:
    """The refusal of whoever came too late."""
    return Refusal(1004, message=f"too much at once: {what}; try again later", retry_after=BUSY_SECONDS)


def too_many() -> Refusal:
    """The refusal of a peer that has as many requests under way as it may."""
    return Refusal(1008, message="too many requests are in flight on this connection")
