"""Cache of validated client metadata: the ``_meta`` of 2026-07-28, checked once per distinct value.

Every modern request carries the version, the capabilities and the name of its client. Whether they are valid
depends only on their bytes and on the served revisions. So a valid value is cached under its bytes, for all
clients. Values that differ from call to call (progress token, trace context) are checked each time and never
cached.

All calls with the same bytes share the cached objects, which are therefore immutable.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn, cast

import msgspec
from msgspec import UNSET, Raw, Struct

from ..model import CallToolRequestParams, ClientCapabilities
from ..model.meta import CLIENT_CAPABILITIES, CLIENT_INFO
from ..wire.codec import Codec
from ..wire.duplicate_keys import decode_members

MAX_CACHED: Final = 256
MAX_CACHED_BYTES: Final = 1 << 10
MAX_CACHED_DEPTH: Final = 8
"""Limits of the cache: number of entries, bytes of one entry, nesting depth of one entry."""

_text = msgspec.json.Decoder(str).decode


class FrozenDict(dict[str, Any]):
    """A read-only dict. A copy of it is an ordinary dict."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("client metadata is read-only; make a copy to change it")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = _refuse
    setdefault = update = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return dict, (dict(self),)


class FrozenCapabilities(FrozenDict, ClientCapabilities):
    """Read-only client capabilities."""


class ValidatedMetadata(Struct, eq=False):
    """The validated ``_meta`` of one client."""

    codec: Codec
    meta: dict[str, Any]
    capabilities: ClientCapabilities
    client_info: dict[str, Any] | None


class ClientMetadataCache(dict[bytes, ValidatedMetadata]):
    """Validated client metadata by its encoded bytes."""

    def store(self, raw: bytes, found: ValidatedMetadata) -> None:
        """Cache ``found`` under ``raw``, unless it exceeds the limits."""
        # An alias may have added a member that is not in these bytes.
        if len(raw) > MAX_CACHED_BYTES or raw in self or msgspec.json.decode(raw) != found.meta:
            return
        try:
            meta = _frozen(found.meta, 0)
        except ValueError:
            return
        if len(self) >= MAX_CACHED:
            self.clear()
        declared = FrozenCapabilities(meta[CLIENT_CAPABILITIES])
        self[raw] = ValidatedMetadata(found.codec, meta, declared, meta.get(CLIENT_INFO))


def _frozen(value: Any, depth: int) -> Any:
    """Return a read-only copy of ``value``. Raises ValueError if that is not possible."""
    if type(value) is list or depth > MAX_CACHED_DEPTH:
        raise ValueError("contains a list or is nested too deeply")
    if type(value) is dict:
        members = cast("dict[str, Any]", value)
        return FrozenDict((name, _frozen(item, depth + 1)) for name, item in members.items())
    return value


def tool_call(members: dict[str, Raw], meta: dict[str, Any]) -> CallToolRequestParams | None:
    """Decode the params of a ``tools/call`` with cached ``_meta``.

    Return None if it has other members than the usual ones.

    Raises:
        KeyError, msgspec.MsgspecError: a member is missing or wrong. The decoder of the method reports which.
    """
    name, arguments = _text(members["name"]), members.get("arguments", UNSET)
    others = len(members) - (2 if arguments is UNSET else 3)
    if not others:
        return CallToolRequestParams(name, arguments, meta=meta)
    if others != 2 or "requestState" not in members or "inputResponses" not in members:
        return None
    answers, state = decode_members(members["inputResponses"]), _text(members["requestState"])
    return CallToolRequestParams(name, arguments, meta=meta, input_responses=answers, request_state=state)
