"""What clients say of themselves again and again: the ``_meta`` of 2026-07-28, judged once.

Every modern request brings the version, the capabilities and the name of its client. A verdict on them depends on their
bytes and on the revisions served, which never change, so a good one is kept under those bytes, of any client. What
differs from call to call (a progress token, a trace) is judged each time and never kept.

What is kept belongs to all calls that bring the same bytes: none of them can change it.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn, cast

import msgspec
from msgspec import UNSET, Raw, Struct

from ..model import CallToolRequestParams, ClientCapabilities
from ..model.meta import CLIENT_CAPABILITIES, CLIENT_INFO
from ..wire.codec import Codec
from ..wire.duplicate_keys import decode_members

META_KEPT: Final = 256
META_KEPT_BYTES: Final = 1 << 10
META_KEPT_DEPTH: Final = 8
"""How many ``_meta`` of all clients together are judged only once, and how long and how deep each may be."""

_text = msgspec.json.Decoder(str).decode


class Fixed(dict[str, Any]):
    """An object that nobody can change; a copy of it is an ordinary one."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("what a client says of itself cannot be changed: make a copy")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = _refuse
    setdefault = update = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return dict, (dict(self),)


class FixedCapabilities(Fixed, ClientCapabilities):
    """Capabilities that nobody can change."""


class Introduction(Struct, eq=False):
    """The ``_meta`` of a request that is in order."""

    codec: Codec
    meta: dict[str, Any]
    capabilities: ClientCapabilities
    client_info: dict[str, Any] | None


class Introductions(dict[bytes, Introduction]):
    """Those that were found in order, by the bytes they came in."""

    def keep(self, raw: bytes, found: Introduction) -> None:
        """Remember what these bytes say, unless they are too many."""
        # An alias may have put something into it that stood elsewhere.
        if len(raw) > META_KEPT_BYTES or raw in self or msgspec.json.decode(raw) != found.meta:
            return
        try:
            meta = _fixed(found.meta, 0)
        except ValueError:
            return
        if len(self) >= META_KEPT:
            self.clear()
        declared = FixedCapabilities(meta[CLIENT_CAPABILITIES])
        self[raw] = Introduction(found.codec, meta, declared, meta.get(CLIENT_INFO))


def _fixed(value: Any, depth: int) -> Any:
    """``value`` so that nobody can change it. Raises ValueError where that cannot be."""
    if type(value) is list or depth > META_KEPT_DEPTH:
        raise ValueError("a list, or too deep")
    if type(value) is dict:
        members = cast("dict[str, Any]", value)
        return Fixed((name, _fixed(item, depth + 1)) for name, item in members.items())
    return value


def tool_call(members: dict[str, Raw], meta: dict[str, Any]) -> CallToolRequestParams | None:
    """The params of a ``tools/call`` that has just these members, whose ``_meta`` is known; None if others are there.

    Raises:
        KeyError, msgspec.MsgspecError: one is missing or wrong; the decoder of the method says what.
    """
    name, arguments = _text(members["name"]), members.get("arguments", UNSET)
    others = len(members) - (2 if arguments is UNSET else 3)
    if not others:
        return CallToolRequestParams(name, arguments, meta=meta)
    if others != 2 or "requestState" not in members or "inputResponses" not in members:
        return None
    answers, state = decode_members(members["inputResponses"]), _text(members["requestState"])
    return CallToolRequestParams(name, arguments, meta=meta, input_responses=answers, request_state=state)
