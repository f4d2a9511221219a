"""What all peers of one server hold together: every bound of one peer that is worth attacking has its total here.

Whoever is about to keep something for a peer asks first (`Account.take`) and gives it back when it is over. The newest
is refused, so nobody loses what was taken before; and what is small is not counted (`settings.SMALL_MESSAGE`), so peers
that ask for little never notice that others ask for much.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Protocol
from weakref import WeakSet

from msgspec import Struct

from ..errors import Refusal
from ..settings import BUSY_SECONDS, CALLS_FREE, Limits


class Account(Struct, eq=False):
    """One thing there is only so much of."""

    limit: int
    taken: int = 0

    def take(self, amount: int) -> bool:
        """Whether there is so much left; if so it is taken. `give` it back."""
        if self.taken + amount > self.limit:
            return False
        self.taken += amount
        return True

    def give(self, amount: int) -> None:
        self.taken -= amount


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

    Nobody says when a call is over: that would cost every call something. They are counted anew once there are none.
    """

    def __init__(self, limit: int) -> None:
        self._limit = self._left = limit
        self._callers: WeakSet[CallingPeer] = WeakSet()

    def full(self, caller: CallingPeer) -> Refusal | None:
        """Why ``caller`` may have no further call under way, if so."""
        if len(caller.in_flight) >= caller.limits.in_flight:
            return Refusal(1008, message="too many requests are in flight on this connection")
        return None if self.has(1, caller) else busy("requests in flight")

    def has(self, count: int, caller: CallingPeer) -> bool:
        """Whether there are places for so many more calls of ``caller``, which has them from now on.

        It has no more than its own limit: what is beyond that is refused one by one.
        """
        most = caller.limits.in_flight
        wanted = min(len(caller.in_flight) + count, most)
        if wanted <= caller.places:
            return True
        more = min(max(wanted, 2 * caller.places), most) - caller.places
        if more > self._left:
            self._count()
            more = wanted - caller.places
        if more > self._left:
            return False
        self._left -= more
        caller.places += more
        self._callers.add(caller)
        return True

    def _count(self) -> None:
        """Find what is left: those who have gone, and calls that are over, have made room."""
        self._left = self._limit
        for caller in list(self._callers):
            caller.places = min(caller.places, max(CALLS_FREE, len(caller.in_flight)))
            if caller.places > CALLS_FREE:
                self._left -= caller.places - CALLS_FREE
            else:
                self._callers.discard(caller)


class Budget:
    """The accounts of one server."""

    def __init__(self, limits: Limits) -> None:
        self.messages = Account(limits.all_messages)
        """Bytes of large messages that are being read or worked on."""
        self.unfinished = Account(limits.all_messages)
        """Bytes of large lines and frames whose end has not come: who sends them cannot be answered yet."""
        self.answers = Account(limits.all_answers)
        """Bytes of large answers that gather in a batch, or that their clients have not taken."""
        self.addresses = Account(limits.all_addresses)
        """Bytes of addresses that are subscribed to."""
        self.abandoned = Account(limits.abandoned_calls)
        """Calls of legacy sessions whose clients have hung up: that does not cancel them."""
        self.calls = CallPlaces(limits.all_calls)


def unread(account: Account, held: int, size: int) -> Refusal | None:
    """Why a peer that has not taken ``held`` bytes of large answers gets no ``size`` more; half of all is for one."""
    if held and held + size > account.limit // 2:
        return Refusal(1069, message="take what was sent before you ask for more", retry_after=BUSY_SECONDS)
    return busy("large answers") if account.taken + size > account.limit else None


def busy(what: str) -> Refusal:
    """The refusal of whoever came too late."""
    return Refusal(1004, message=f"too much at once: {what}; try again later", retry_after=BUSY_SECONDS)
