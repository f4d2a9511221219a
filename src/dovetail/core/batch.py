"""JSON-RPC batches: which sessions may send them, which messages they may contain, and the collected replies.

`Limits.max_batch_size` limits the number of messages; `wire.frames.split_batch` applies it. Duplicate request
ids are refused by `Endpoint`, as for single requests.
"""

from __future__ import annotations

from msgspec import Struct

from ..errors import ProtocolError
from ..wire.frames import RequestId, encode_batch
from .admit import INITIALIZE
from .channel import Call, Session
from .limits import UNCOUNTED_BYTES, SharedLimit


class Batch(Struct, eq=False):
    """The collected replies of one batch, until its last request has ended."""

    buffered: SharedLimit
    """The shared limit on buffered bytes that the replies count against until the batch has been sent."""
    waiting: int = 0
    replies: list[tuple[int, bytes]] = []
    """The encoded replies, each with the position of its request in the batch."""
    positions: dict[RequestId, int] = {}
    """Position of each open request in the batch."""
    read: int = 0
    """Number of messages read so far that need a reply."""
    complete: bool = False
    """All messages of the batch have been read. Nothing is written before that."""
    full: bool = False
    """A result exceeded the size limit of the batch. Later results are refused as well."""
    size: int = 0
    """Bytes of the results."""
    encoded: bytes | None = None
    """The encoded batch, once all replies are there."""
    acquired_bytes: int = 0
    """Bytes acquired from ``buffered``. They are released when the batch is deleted, after its last call."""

    def __del__(self) -> None:
        self.buffered.release(self.acquired_bytes)

    def has_room(self, size: int, most: int) -> bool:
        """Whether one more result of ``size`` bytes fits into a batch of at most ``most`` bytes."""
        total = self.size + size
        count = total - self.acquired_bytes if total > UNCOUNTED_BYTES else 0
        if total > most or not self.buffered.acquire(count):
            self.full = True
            return False
        self.size = total
        self.acquired_bytes += count
        return True

    def begin(self, id: RequestId) -> None:
        """Register an admitted request; its reply follows through `settle`."""
        self.waiting += 1
        self.positions[id] = self.read
        self.read += 1

    def refuse(self, reply: bytes) -> None:
        """Add the error reply of a message that was not admitted."""
        self.replies.append((self.read, reply))
        self.read += 1

    def settle(self, id: RequestId, reply: bytes | None) -> bytes | None:
        """Store a reply (None: the request was cancelled).

        Return the encoded batch once no reply is missing.
        """
        self.waiting -= 1
        if reply is not None:
            self.replies.append((self.positions[id], reply))
        return self.take_encoded()

    def take_encoded(self) -> bytes | None:
        """Return the encoded batch once: when it is complete and has at least one reply."""
        if not self.complete or self.waiting or not self.replies:
            return None
        # JSON-RPC allows any order. The order of the requests is what erlmcp documents.
        replies, self.replies = sorted(self.replies), []
        self.encoded = encode_batch([reply for _, reply in replies])
        return self.encoded


def batches_allowed(session: Session | None) -> bool:
    """Whether the session may send batches: on 2025-03-26, and on all legacy revisions in the erlmcp dialect."""
    if session is None:
        return False
    legacy = not session.revision.modern
    return session.revision.batches or (legacy and session.codec.dialect.batches_on_legacy)


def problem(call: Call) -> ProtocolError | None:
    """Return the error for a call that may not be part of a batch, else None."""
    if call.method == INITIALIZE:
        # 2025-03-26, Lifecycle: "The initialize request MUST NOT be part of a JSON-RPC batch".
        return ProtocolError("invalid_request", "initialize must not be part of a batch")
    if call.revision.modern:
        return ProtocolError("invalid_request", f"revision {call.revision.name} does not support batches")
    return None
