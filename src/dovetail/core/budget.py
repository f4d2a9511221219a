"""The old accounts, for the HTTP server, until it uses `limits`."""

from __future__ import annotations

from msgspec import Struct

from ..errors import Refusal
from ..settings import Limits
from .limits import RETRY_SECONDS
from .limits import busy as busy


class Account(Struct, eq=False):
    limit: int
    taken: int = 0
    used: bool = False

    def take(self, amount: int) -> bool:
        if self.taken + amount > self.limit:
            return False
        self.taken += amount
        self.used = True
        return True

    def give(self, amount: int) -> None:
        self.taken -= amount

    def rested(self) -> bool:
        rested, self.used = not (self.taken or self.used), False
        return rested


class Budget:
    def __init__(self, limits: Limits) -> None:
        self.messages = Account(limits.max_buffered_bytes)
        self.unfinished = Account(limits.max_buffered_bytes)
        self.answers = Account(limits.max_buffered_bytes)
        self.abandoned = Account(limits.abandoned_calls)
        self.ending = Account(1 << 62)


def share_of(limit: int) -> int:
    return max(1, limit // 2)


def unread(account: Account, held: int, size: int) -> Refusal | None:
    if held and held + size > share_of(account.limit):
        return Refusal(1069, message="take what was sent before you ask for more", retry_after=RETRY_SECONDS)
    return busy("large answers") if account.taken + size > account.limit else None
