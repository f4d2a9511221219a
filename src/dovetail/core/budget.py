"""What all peers of one server hold together: every bound of one peer that is worth attacking has its total here.

Whoever is about to keep something for a peer asks first (`Account.take`) and gives it back when it is over. The newest
is refused, so nobody loses what was taken before; and what is small is not counted (`settings.SMALL_MESSAGE`), so peers
that ask for little never notice that others ask for much.
"""

from __future__ import annotations

from msgspec import Struct

from ..errors import Refusal
from ..settings import BUSY_SECONDS, Limits


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


def unread(account: Account, held: int, size: int) -> Refusal | None:
    """Why a peer that has not taken ``held`` bytes of large answers gets no ``size`` more; half of all is for one."""
    if held and held + size > account.limit // 2:
        return Refusal(1069, message="take what was sent before you ask for more", retry_after=BUSY_SECONDS)
    return busy("large answers") if account.taken + size > account.limit else None


def busy(what: str) -> Refusal:
    """The refusal of whoever came too late."""
    return Refusal(1004, message=f"too much at once: {what}; try again later", retry_after=BUSY_SECONDS)
