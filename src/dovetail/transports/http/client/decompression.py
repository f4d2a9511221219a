"""Decompression of response bodies in bounded pieces, as protection against decompression bombs."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

from ....errors import TransportError

DECOMPRESSED_PIECE_BYTES: Final = 64 << 10
"""Bytes of one piece of decompressed data."""
INFLATED_FREELY: Final = 4 << 20
MAX_COMPRESSION_RATIO: Final = 200
"""Maximum compression ratio, applied once this many bytes were decompressed."""

_EITHER = 32 + zlib.MAX_WBITS
"""zlib setting that detects gzip and zlib headers."""
_BARE = -zlib.MAX_WBITS
"""zlib setting for raw deflate, which many servers send as ``deflate``."""
_MEMBER = 0x1F
"""The first byte of a gzip member."""


class Decompressor:
    """Decompresses one body. ``encoding`` is its ``Content-Encoding``.

    Raises:
        TransportError: the encoding was not requested.
    """

    def __init__(self, encoding: str) -> None:
        if encoding not in ("gzip", "x-gzip", "deflate"):
            raise TransportError(
                f"the response has an unsupported Content-Encoding: {encoding[:50]!r}", cause="protocol"
            )
        self._deflate = encoding == "deflate"
        self._inflate: Any = None
        self._begun = False
        self._taken = self._given = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decompress ``data`` and yield pieces of bounded size.

        Raises:
            TransportError: the data is invalid, or exceeds the maximum ratio.
        """
        self._taken += len(data)
        try:
            while data and (inflate := self._inflate or self._begin(data[0])):
                for piece in _pieces(inflate, data):
                    self._given += len(piece)
                    if self._given > max(INFLATED_FREELY, MAX_COMPRESSION_RATIO * self._taken):
                        text = f"the compressed response expands to more than {MAX_COMPRESSION_RATIO} times its size"
                        raise TransportError(text, cause="protocol")
                    yield piece
                if not inflate.eof:
                    return
                data, self._inflate = inflate.unused_data, None
        except zlib.error as error:
            raise TransportError(f"the response cannot be decompressed: {error}", cause="protocol") from error

    def finish(self) -> None:
        """Check that the body is complete.

        Raises:
            TransportError: it is truncated.
        """
        if self._inflate is not None:
            raise TransportError("the compressed response is truncated", cause="reset")

    def _begin(self, first: int) -> Any:
        """Create the decompressor for the body, or for its next gzip member. None: the rest is padding."""
        if self._begun and first != _MEMBER:
            return None
        self._begun = True
        self._inflate = zlib.decompressobj(_BARE if self._deflate and first & 0x0F != 8 else _EITHER)
        return self._inflate


def _pieces(inflate: Any, data: bytes) -> Iterator[bytes]:
    while not inflate.eof:
        piece = inflate.decompress(data, DECOMPRESSED_PIECE_BYTES)
        if piece:
            yield piece
        data = inflate.unconsumed_tail
        # A full piece may leave data in the decompressor even if all input was consumed.
        if not data and len(piece) < DECOMPRESSED_PIECE_BYTES:
            return


class DecompressedBody:
    """A response body that is read once and decompressed on the fly.

    It is its own iterator, see `chunks`. Subclasses implement `more`.
    """

    __slots__ = ()
    encoding: str
    """Its ``Content-Encoding``, or an empty string."""
    _inflater: Decompressor | None
    _pieces: Iterator[bytes]

    async def more(self) -> bytes | None:
        """Return the next received bytes; None at the end."""
        raise NotImplementedError

    async def read(self, limit: int) -> bytes:
        """Return the whole body."""
        pieces: list[bytes] = []
        size = 0
        async for piece in self:
            size += len(piece)
            if size > limit:
                raise too_large(limit)
            pieces.append(piece)
            await asyncio.sleep(0)  # a compressed body expands faster than it was received
        return b"".join(pieces)

    def chunks(self) -> AsyncIterator[bytes]:
        """Return an iterator over the body.

        It is not a generator: an abandoned generator costs an event loop task to close it.
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
            # Created with the first piece: an empty body may have any encoding.
            self._inflater = self._inflater or Decompressor(self.encoding)
            self._pieces = self._inflater.feed(data)
        return piece


def too_large(limit: int) -> TransportError:
    return TransportError(f"the response exceeds {limit} bytes", cause="protocol")
