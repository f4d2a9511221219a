"""Bodies that come compressed, unpacked piece by piece: a few bytes must not become gigabytes at once."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from ...errors import TransportError

ACCEPTED = "gzip, deflate"
_PIECE = 64 << 10
_EITHER = 32 + zlib.MAX_WBITS
"""Reads the header of gzip or of zlib, whichever is there."""


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
        self._inflate = zlib.decompressobj(_EITHER)
        self._guess = encoding == "deflate"
        self._begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What ``data`` unpacks to, in pieces of a bounded size.

        Raises:
            TransportError: it cannot be unpacked.
        """
        if not self._begun:
            self._begun = True
            if self._guess and data[0] & 0x0F != 8:
                self._inflate = zlib.decompressobj(
                    -zlib.MAX_WBITS
                )  # many servers leave out the header of zlib
        try:
            while data and not self._inflate.eof:
                piece = self._inflate.decompress(data, _PIECE)
                if piece:
                    yield piece
                data = self._inflate.unconsumed_tail
        except zlib.error as error:
            raise TransportError(f"the answer cannot be unpacked: {error}", cause="protocol") from error

    def finish(self) -> None:
        """The body has ended.

        Raises:
            TransportError: it breaks off in the middle.
        """
        if self._begun and not self._inflate.eof:
            raise TransportError("the packed answer breaks off", cause="reset")
