"""Stored values with a version prefix: an older process rejects what it cannot read."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from .base import StoreUnreadable

T = TypeVar("T")


class VersionedRecords(Generic[T]):
    """The encoding of values of one type: ``version``, a space, and JSON.

    Increase ``version`` when an older reader would misinterpret the data. Additional members that it can
    ignore need no new version.
    """

    def __init__(self, type: type[T], version: int = 1) -> None:
        self._version = version
        self._head = b"%d " % version
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(type)

    def encode(self, value: T) -> bytes:
        return self._head + self._encoder.encode(value)

    def decode(self, data: bytes) -> T:
        """Decode ``data``.

        Raises:
            StoreUnreadable: the data was written by a newer version, or is damaged.
        """
        head, _, body = data.partition(b" ")
        if not head.isdigit() or int(head) > self._version:
            raise StoreUnreadable(
                "the stored value was written by a newer version of Dovetail; upgrade this process"
            )
        try:
            return self._decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreUnreadable("the stored value is damaged") from error
