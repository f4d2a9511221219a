"""Notification params shared by many subscribers: each codec encodes them once, with a placeholder for the
listen request id."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from ..model.meta import SUBSCRIPTION_ID
from .frames import RequestId

_GAP: Final = os.urandom(16).hex()
"""The placeholder for the id; random, so that no peer can write it."""


class SharedParams(Struct, eq=False):
    """``make`` creates the params with the metadata of one subscriber."""

    make: Callable[[dict[str, Any] | UnsetType], Struct]
    written: dict[Hashable, tuple[bytes, bytes | None]] = {}
    """The encoded parts before and after the id, by encoder. The second is None if the id does not occur."""


class ParamsFor(Struct, eq=False):
    """The params for one subscriber: ``id`` is the id of its listen request, None for a legacy session."""

    shared: SharedParams
    id: RequestId | None = None

    @property
    def params(self) -> Struct:
        return self._with(self.id)

    def write(self, writer: Hashable, encode: Callable[[Struct], bytes]) -> bytes:
        """Return the encoded message; ``writer`` is the cache key for ``encode``."""
        key = (writer, self.id is None)
        pieces = self.shared.written.get(key)
        if pieces is None:
            data = encode(self._with(None if self.id is None else _GAP))
            before, found, after = data.partition(b'"%b"' % _GAP.encode())
            pieces = self.shared.written[key] = (before, after if found else None)
        before, after = pieces
        return before if after is None else before + msgspec.json.encode(self.id) + after

    def _with(self, id: RequestId | None) -> Struct:
        return self.shared.make(UNSET if id is None else {SUBSCRIPTION_ID: id})
