"""Arrays of messages: who may send them, what may be in them, and their replies, which leave together.

The limit on their number is `Limits.max_batch_size`, and `wire.frames.split_batch` applies it; two requests with one id
are refused as anywhere, by the table of those in flight in `Endpoint`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from msgspec import Struct

from ..errors import ProtocolError
from ..settings import CALLS_FREE, LARGE_ANSWER, SMALL_MESSAGE
from ..wire.frames import encode_batch
from ..wire.long_results import Body, batch_in_pieces, batch_in_steps
from .admit import INITIALIZE
from .budget import Account, Budget
from .channel import Call, Session

T = TypeVar("T")


class Batch(Struct, eq=False):
    """The replies of one array, until the last of its requests is settled."""

    waiting: int = 0
    replies: list[bytes] = []
    complete: bool = False
    """The whole array has been looked at; before that nothing is written."""
    account: Account | None = None
    """What all arrays together may gather."""
    messages: Account | None = None
    held: int = 0
    """Bytes it counts for among the messages of all peers, until nobody holds it any more."""
    full: bool = False
    """A result had no room: those that come later have none either."""
    size: int = 0
    """Bytes of the results that have gathered; given back when nobody holds the array any more."""
    whole: bytes | None = None
    """The array, once it was put together."""

    def __del__(self) -> None:
        if self.account is not None:
            self.account.give(self.size)
        if self.messages is not None:
            self.messages.give(self.held)

    def takes(self, size: int, most: int) -> bool:
        """Whether there is room for one more result of ``size`` bytes in an array of ``most`` bytes."""
        if self.size + size > most or (self.account is not None and not self.account.take(size)):
            self.full = True
            return False
        self.size += size
        return True

    def gives(self, size: int) -> None:
        """Have back what `takes` gave for a result that is only now known to be as large as it is."""
        self.size -= size
        if self.account is not None:
            self.account.give(size)

    def settle(self, reply: bytes | None) -> bytes | None:
        """Note a reply (None: the request was cancelled) and return the array once nothing is missing.

        A large one is left to whoever puts it together in steps, with `joined`.
        """
        self.waiting -= 1
        if reply is not None:
            self.replies.append(reply)
        return None if self.size > LARGE_ANSWER else at_once(self.joined())

    @property
    def due(self) -> bool:
        """Nothing is missing any more, and there is something to say."""
        return self.complete and not self.waiting and bool(self.replies)

    def joined(self) -> Generator[None, None, bytes | None]:
        """The array, when it is complete and there is anything to say; a step for each piece of it."""
        if self.due:
            small = self.size <= LARGE_ANSWER
            self.whole = encode_batch(self.replies) if small else (yield from batch_in_steps(self.replies))
            self.replies = []
        return self.whole

    def in_pieces(self) -> Body | None:
        """The array as `joined` has it, but a large one is not put together."""
        if not self.due or self.size <= LARGE_ANSWER:
            return at_once(self.joined())
        replies, self.replies = self.replies, []
        return batch_in_pieces(replies)


def begun(budget: Budget, count: int) -> Batch | None:
    """The array of so many messages; None: all peers together have no room for it.

    A hundred bytes become kilobytes once they are calls, and those wait for their turn: sixteen count as much as what
    is just small.
    """
    held = count * SMALL_MESSAGE // CALLS_FREE
    if held <= SMALL_MESSAGE:
        return Batch(account=budget.answers)
    if not budget.messages.take(held):
        return None
    return Batch(account=budget.answers, messages=budget.messages, held=held)


def at_once(steps: Generator[None, None, T]) -> T:
    """What ``steps`` come to."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value


def may_come(session: Session | None) -> bool:
    """Whether arrays may come in this session: on 2025-03-26, and on all of the legacy era in erlmcp's words."""
    if session is None:
        return False
    legacy = not session.revision.modern
    return session.revision.batches or (legacy and session.codec.dialect.batches_on_legacy)


def problem(call: Call) -> ProtocolError | None:
    """Why ``call`` may not be part of an array."""
    if call.method == INITIALIZE:
        # 2025-03-26, Lifecycle: "The initialize request MUST NOT be part of a JSON-RPC batch".
        return ProtocolError("invalid_request", "initialize must not be part of a batch")
    if call.revision.modern:
        return ProtocolError("invalid_request", f"{call.revision.name} has no batches")
    return None
