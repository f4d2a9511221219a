"""Bodies that come compressed, unpacked piece by piece: a few bytes must not become gigabytes at once."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

from ....errors import TransportError

INFLATED_PIECE: Final = 64 << 10
"""Bytes that a packed answer is unpacked to at a time."""
INFLATED_FREELY: Final = 4 << 20
INFLATION: Final = 200
"""How many times its size a packed answer may become, once it has become that many bytes."""

_EITHER = 32 + zlib.MAX_WBITS
"""Reads the header of gzip or of zlib, whichever is there."""
_BARE = -zlib.MAX_WBITS
"""Reads what has no header: many servers understand ``deflate`` that way."""
_MEMBER = 0x1F
"""The first byte of gzip."""


class Inflater:
    """Unpacks one body. ``encoding`` is its ``Content-Encoding``.

    Raises:
        TransportError: an encoding that was not asked for.
    """

    def __init__(self, encoding: str) -> None:
        if encoding not in ("gzip", "x-gzip", "deflate"):
            raise TransportError(
                f"the answer is encoded in a way nobody asked for: {encoding[:50]!r}", cause="protocol"
            )
        self._deflate = encoding == "deflate"
        self._inflate: Any = None
        self._begun = False
        self._taken = self._given = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What ``data`` unpacks to, in pieces of a bounded size.

        Raises:
            TransportError: it cannot be unpacked, or becomes too much.
        """
        self._taken += len(data)
        try:
            while data and (inflate := self._inflate or self._begin(data[0])):
                for piece in _pieces(inflate, data):
                    self._given += len(piece)
                    if self._given > max(INFLATED_FREELY, INFLATION * self._taken):
                        text = f"the packed answer becomes more than {INFLATION} times its size"
                        raise TransportError(text, cause="protocol")
                    yield piece
                if not inflate.eof:
                    return
                data, self._inflate = inflate.unused_data, None
        except zlib.error as error:
            raise TransportError(f"the answer cannot be unpacked: {error}", cause="protocol") from error

    def finish(self) -> None:
        """The body has ended.

        Raises:
            TransportError: it breaks off in the middle.
        """
        if self._inflate is not None:
            raise TransportError("the packed answer breaks off", cause="reset")

    def _begin(self, first: int) -> Any:
        """Make ready for the body, or for one more member of it; what else may follow is padding: None."""
        if self._begun and first != _MEMBER:
            return None
        self._begun = True
        self._inflate = zlib.decompressobj(_BARE if self._deflate and first & 0x0F != 8 else _EITHER)
        return self._inflate


def _pieces(inflate: Any, data: bytes) -> Iterator[bytes]:
    while not inflate.eof:
        piece = inflate.decompress(data, INFLATED_PIECE)
        if piece:
            yield piece
        data = inflate.unconsumed_tail
        # A full piece may have left something behind, even if all of the input is taken.
        if not data and len(piece) < INFLATED_PIECE:
            return


class Body:
    """A body that is read once, unpacked if need be; its own iterator, see `chunks`. Whoever has one brings `more`."""

    __slots__ = ()
    encoding: str
    """Its ``Content-Encoding``, if that is anything."""
    _inflater: Inflater | None
    _pieces: Iterator[bytes]

    async def more(self) -> bytes | None:
        """The next bytes as they came; None at the end."""
        raise NotImplementedError

    async def read(self, limit: int) -> bytes:
        """The whole body."""
        pieces: list[bytes] = []
        size = 0
        async for piece in self:
            size += len(piece)
            if size > limit:
                raise too_large(limit)
            pieces.append(piece)
            await asyncio.sleep(0)  # a packed body comes faster than it was sent
        return b"".join(pieces)

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes.

        Not a generator: one that is left before its end costs a task of the event loop to close it.
        """
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while (piece := next(self._pieces, None)) is None:
            data = await self.more()
            if data is None:
                if self._inflater is not None:
                    self._inflater.finish()
                raise StopAsyncIteration
            if not self.encoding:
                return data
            # Made for the first piece: how nothing is encoded does not matter.
            self._inflater = self._inflater or Inflater(self.encoding)
            self._pieces = self._inflater.feed(data)
        return piece


def too_large(limit: int) -> TransportError:
    return TransportError(f"the answer exceeds {limit} bytes", cause="protocol")
