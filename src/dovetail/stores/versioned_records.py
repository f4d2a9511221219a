"""Values with a version in front: an older process refuses what it cannot read instead of guessing."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from .base import StoreUnreadable

T = TypeVar("T")


class Records(Generic[T]):
    """How values of one type are written: ``version``, a space, and JSON.

    Raise ``version`` when an older reader would misunderstand what is written now. Members it may simply not know
    need no new version.
    """

    def __init__(self, type: type[T], version: int = 1) -> None:
        self._version = version
        self._head = b"%d " % version
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(type)

    def write(self, value: T) -> bytes:
        return self._head + self._encoder.encode(value)

    def read(self, data: bytes) -> T:
        """What was written.

        Raises:
            StoreUnreadable: by a newer version, or it is damaged.
        """
        head, _, body = data.partition(b" ")
        if not head.isdigit() or int(head) > self._version:
            raise StoreUnreadable("what is in the store was written by a newer version")
        try:
            return self._decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreUnreadable("what is in the store is damaged") from error
