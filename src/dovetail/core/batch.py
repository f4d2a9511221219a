"""Batches: who may send them, what may be in them, and their replies, which leave together.

The limit on their number is `Limits.max_batch_size`, and `wire.frames.split_batch` applies it; two requests with one id
are refused as anywhere, by the table of those in flight in `Endpoint`.
"""

from __future__ import annotations

from msgspec import Struct

from ..errors import ProtocolError
from ..wire.frames import RequestId, encode_batch
from .admit import INITIALIZE
from .channel import Call, Session
from .limits import UNCOUNTED_BYTES, SharedLimit


class Batch(Struct, eq=False):
    """The replies of one batch, until the last of its requests is settled."""

    buffered: SharedLimit
    """What the replies count against until the batch has been sent."""
    waiting: int = 0
    replies: list[tuple[int, bytes]] = []
    """Each with the position of its request."""
    positions: dict[RequestId, int] = {}
    """Where each request stands in the batch."""
    read: int = 0
    """Messages of the batch that need a reply, so far."""
    complete: bool = False
    """All messages of the batch have been read; before that nothing is written."""
    full: bool = False
    """A result was too large for the batch; later results are refused as well."""
    size: int = 0
    """Bytes of the results."""
    whole: bytes | None = None
    """The encoded batch, once it is complete."""
    counted: int = 0
    """Bytes acquired from ``buffered``; released with the batch itself, after its last call."""

    def __del__(self) -> None:
        self.buffered.release(self.counted)

    def takes(self, size: int, most: int) -> bool:
        """Whether there is room for one more result of ``size`` bytes in a batch of ``most`` bytes."""
        total = self.size + size
        count = total - self.counted if total > UNCOUNTED_BYTES else 0
        if total > most or not self.buffered.acquire(count):
            self.full = True
            return False
        self.size = total
        self.counted += count
        return True

    def begin(self, id: RequestId) -> None:
        """A request of the batch has been admitted; its reply follows."""
        self.waiting += 1
        self.positions[id] = self.read
        self.read += 1

    def refuse(self, reply: bytes) -> None:
        """A message of the batch is answered with an error at once."""
        self.replies.append((self.read, reply))
        self.read += 1

    def settle(self, id: RequestId, reply: bytes | None) -> bytes | None:
        """Store a reply (None: the request was cancelled) and return the batch once no reply is missing."""
        self.waiting -= 1
        if reply is not None:
            self.replies.append((self.positions[id], reply))
        return self.joined()

    def joined(self) -> bytes | None:
        """The encoded batch, once, when it is complete and there is a reply in it."""
        if not self.complete or self.waiting or not self.replies:
            return None
        # JSON-RPC allows any order; that of the requests is what erlmcp's documents show.
        replies, self.replies = sorted(self.replies), []
        self.whole = encode_batch([reply for _, reply in replies])
        return self.whole


def may_come(session: Session | None) -> bool:
    """Whether batches may come in this session: on 2025-03-26, and on all legacy revisions in erlmcp's dialect."""
    if session is None:
        return False
    legacy = not session.revision.modern
    return session.revision.batches or (legacy and session.codec.dialect.batches_on_legacy)


def problem(call: Call) -> ProtocolError | None:
    """Why ``call`` may not be part of a batch."""
    if call.method == INITIALIZE:
        # 2025-03-26, Lifecycle: "The initialize request MUST NOT be part of a JSON-RPC batch".
        return ProtocolError("invalid_request", "initialize must not be part of a batch")
    if call.revision.modern:
        return ProtocolError("invalid_request", f"{call.revision.name} has no batches")
    return None
