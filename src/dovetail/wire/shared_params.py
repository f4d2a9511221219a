"""Params of a notification for many: each codec writes them once, with a gap for the id of a listen request."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from ..model.meta import SUBSCRIPTION_ID
from .frames import RequestId

_GAP: Final = os.urandom(16).hex()
"""Stands for the id until there is one; nobody else can write it."""


class SharedParams(Struct, eq=False):
    """``make`` gives the params with the metadata of one listener."""

    make: Callable[[dict[str, Any] | UnsetType], Struct]
    written: dict[Hashable, tuple[bytes, bytes | None]] = {}
    """What stands before and after the id, by who wrote it; None after it: the id is not in it."""


class ParamsFor(Struct, eq=False):
    """The same for one of them: ``id`` is that of its listen request, None in a legacy session."""

    shared: SharedParams
    id: RequestId | None = None

    @property
    def params(self) -> Struct:
        return self._with(self.id)

    def write(self, writer: Hashable, encode: Callable[[Struct], bytes]) -> bytes:
        """The whole message; ``writer`` stands for all that ``encode`` does."""
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
