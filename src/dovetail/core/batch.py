"""The replies of one batch: collected, and written together when the last one is there."""

from __future__ import annotations

from msgspec import Struct

from ..wire.frames import encode_batch


class Batch(Struct, eq=False):
    """The replies of one array, until the last of its requests is settled."""

    waiting: int = 0
    replies: list[bytes] = []
    complete: bool = False
    """The whole array has been looked at; before that nothing is written."""

    def settle(self, reply: bytes | None) -> bytes | None:
        """Note a reply (None: the request was cancelled) and return the array once nothing is missing."""
        self.waiting -= 1
        if reply is not None:
            self.replies.append(reply)
        return self.finished()

    def finished(self) -> bytes | None:
        """The array, when it is complete and there is anything to say."""
        if self.complete and not self.waiting and self.replies:
            return encode_batch(self.replies)
        return None
