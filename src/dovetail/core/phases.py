"""Legacy sessions: the ``initialize`` handshake and the phases that follow.

`negotiate` selects the revision, `open_session` creates the session of an ``initialize`` call, `handshake`
builds its result. `advance` changes the phase and refuses every change that the table does not list. Modern
revisions have no sessions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ..errors import ProtocolError, Refusal, StateError
from ..model import ClientCapabilities, Implementation, InitializeRequestParams, InitializeResult
from ..shapes import is_object
from ..wire.codec import Codec
from ..wire.frames import UNREADABLE
from ..wire.revisions import Revision
from .channel import Call, Session
from .principal import Principal

MAX_CLIENT_INFO_BYTES: Final = 4096
"""Bytes of client info stored while the client is connected.

Of longer client info only its names are stored.
"""
MAX_STORED_NAME_LENGTH: Final = 200
"""Characters stored of each of those names."""
MAX_CAPABILITIES_BYTES: Final = 2048
"""Bytes of client capabilities that are stored.

Over HTTP they are part of the session id, which travels in a header; many peers limit headers to 8 KiB.
"""

TRANSITIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "negotiating": {"initialized": "ready", "drain": "draining", "close": "closed"},
    "ready": {"pause": "paused", "drain": "draining", "close": "closed"},
    "paused": {"resume": "ready", "drain": "draining", "close": "closed"},
    "draining": {"close": "closed"},
    "closed": {},
}
"""Phase → event → next phase. Other events are errors."""

SERVING: Final = frozenset({"negotiating", "ready"})
"""Phases in which requests are admitted.

``negotiating`` is included: many clients send their first request together with
``notifications/initialized``, and the specification requires only *clients* to wait. Strict admission
excludes it.
"""

SERVER_FEATURES: Final = ("resources", "tools", "prompts", "logging")
"""Server features that erlmcp clients list in their own capabilities; see `intersect`."""


def advance(session: Session, event: str) -> str:
    """Apply ``event`` to ``session`` and return its new phase.

    Raises:
        StateError: the phase does not allow the event; the session is unchanged.
    """
    target = TRANSITIONS[session.phase].get(event)
    if target is None:
        raise StateError(f"session in phase {session.phase!r} does not allow {event!r}")
    before, session.phase = session.phase, target
    if session.on_phase is not None:
        session.on_phase(before, target, event)
    return target


def negotiate(requested: str, served: Sequence[Revision]) -> Revision | None:
    """Select the legacy revision to respond with; None if no legacy revision is served.

    ``served`` is ordered oldest first. The handshake never selects a modern revision.
    """
    legacy = [revision for revision in served if not revision.modern]
    newest = legacy[-1] if legacy else None
    return next((revision for revision in legacy if revision.name == requested), newest)


class _Proposal(Struct, rename="camel"):
    protocol_version: str


def proposal(params: Raw | UnsetType) -> str:
    """Return the version that an unserved ``initialize`` requests, or an empty string."""
    try:
        return "" if params is UNSET else msgspec.json.decode(params, type=_Proposal).protocol_version
    except UNREADABLE:
        return ""


def requested_dialect(params: InitializeRequestParams) -> str | None:
    """Return the dialect that the client requests."""
    experimental = ClientCapabilities(params.capabilities).experimental or {}
    wish: Any = experimental.get("dialect")
    name = cast("dict[str, Any]", wish).get("name") if isinstance(wish, dict) else None
    return name if isinstance(name, str) else None


def open_session(
    params: InitializeRequestParams, codec: Codec, principal: Principal | None = None
) -> Session:
    """Create the session of an admitted ``initialize`` call. It starts when the response is sent.

    Raises:
        ProtocolError: (``invalid_params``) the capabilities exceed `MAX_CAPABILITIES_BYTES`.
    """
    if len(msgspec.json.encode(params.capabilities)) > MAX_CAPABILITIES_BYTES:
        raise ProtocolError(
            "invalid_params", f"the client capabilities exceed {MAX_CAPABILITIES_BYTES} bytes"
        )
    info: dict[str, Any] = msgspec.to_builtins(params.client_info)
    if len(msgspec.json.encode(info)) > MAX_CLIENT_INFO_BYTES:
        info = names_of(info)
    return Session(
        revision=codec.revision,
        codec=codec,
        capabilities=ClientCapabilities(params.capabilities),
        client_info=info,
        principal=principal,
    )


def names_of(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names in a client info, without icons and descriptions, to save space."""
    return {
        name: info[name][:MAX_STORED_NAME_LENGTH]
        for name in ("name", "version", "title")
        if isinstance(info.get(name), str)
    }


def handshake(
    call: Call,
    capabilities: Mapping[str, Any],
    server_info: Implementation,
    instructions: str | UnsetType = UNSET,
    *,
    narrow: bool = False,
) -> InitializeResult:
    """Build the result of an admitted ``initialize`` call. Sending it opens the session.

    ``narrow`` reduces the server capabilities to those that the client listed (erlmcp).
    """
    told = intersect(capabilities, call.capabilities) if narrow else dict(capabilities)
    return InitializeResult(
        protocol_version=call.revision.name,
        capabilities=told,
        server_info=server_info,
        instructions=instructions,
    )


def intersect(offered: Mapping[str, Any], declared: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``offered`` without the features that the client did not list, if it listed any server feature.

    Official clients never list server features, so nothing is removed for them. For an erlmcp client,
    ``tools.listChanged`` alone is a client capability: "Client can track tool list changes".
    """
    named = [name for name in SERVER_FEATURES if declared.get(name) is not None]
    own = declared.get("tools")
    if not named or (named == ["tools"] and is_object(own) and "listChanged" in own):
        return dict(offered)
    return {name: value for name, value in offered.items() if name in named or name not in SERVER_FEATURES}


def check(method: str, session: Session) -> None:
    """Refuse a request that the current phase of the session does not allow."""
    if method == "ping":
        return
    if session.phase == "paused" and len(session.waiting or ()) < session.queue:
        return  # the driver makes the request wait
    if session.phase in ("paused", "draining"):
        raise Refusal(1008, message=f"the session is {session.phase}; retry later")
    raise ProtocolError("not_initialized", f"the session is {session.phase}, not ready for {method}")
