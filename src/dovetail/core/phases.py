"""The life of a legacy session: the handshake, and the phases that follow it.

`negotiate` picks the revision, `open_session` makes the session an ``initialize`` call carries, `handshake`
writes its result, `advance` moves a session from phase to phase and refuses every step the table does not
have. The modern era has none of this.
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

CLIENT_INFO_BYTES: Final = 4096
"""Bytes of a client's description of itself that are kept for as long as it is connected; of more, its names are."""
NAME_KEPT: Final = 200
"""Characters of each of those."""
KEPT_CAPABILITIES: Final = 2048
"""Bytes of a client's capabilities. They are kept as well, over HTTP in the id of the session, which travels in a
header: many peers take 8 KiB at most."""

TRANSITIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "negotiating": {"initialized": "ready", "drain": "draining", "close": "closed"},
    "ready": {"pause": "paused", "drain": "draining", "close": "closed"},
    "paused": {"resume": "ready", "drain": "draining", "close": "closed"},
    "draining": {"close": "closed"},
    "closed": {},
}
"""Phase → event → next phase. What is not here is refused."""

SERVING: Final = frozenset({"negotiating", "ready"})
"""Phases in which requests are admitted.

``negotiating`` is among them: many clients send their first request together with
``notifications/initialized``, and the specification only asks *them* to wait. Strict admission leaves it out.
"""

SERVER_FEATURES: Final = ("resources", "tools", "prompts", "logging")
"""What erlmcp's clients declare as if it were theirs; see `intersect`."""


def advance(session: Session, event: str) -> str:
    """Move ``session`` on and return its new phase.

    Raises:
        StateError: the phase has no such step; the session is unchanged.
    """
    target = TRANSITIONS[session.phase].get(event)
    if target is None:
        raise StateError(f"a session that is {session.phase} cannot {event}")
    before, session.phase = session.phase, target
    if session.on_phase is not None:
        session.on_phase(before, target, event)
    return target


def negotiate(requested: str, served: Sequence[Revision]) -> Revision | None:
    """The legacy revision to answer a proposal with; None when no legacy revision is served.

    ``served`` is ordered oldest first. Modern revisions are never the outcome of a handshake.
    """
    legacy = [revision for revision in served if not revision.modern]
    newest = legacy[-1] if legacy else None
    return next((revision for revision in legacy if revision.name == requested), newest)


class _Proposal(Struct, rename="camel"):
    protocol_version: str


def proposal(params: Raw | UnsetType) -> str:
    """The version an ``initialize`` asks for that is not going to be answered; empty when it names none."""
    try:
        return "" if params is UNSET else msgspec.json.decode(params, type=_Proposal).protocol_version
    except UNREADABLE:
        return ""


def wished_dialect(params: InitializeRequestParams) -> str | None:
    """The dialect a client asks to be spoken to in."""
    experimental = ClientCapabilities(params.capabilities).experimental or {}
    wish: Any = experimental.get("dialect")
    name = cast("dict[str, Any]", wish).get("name") if isinstance(wish, dict) else None
    return name if isinstance(name, str) else None


def open_session(
    params: InitializeRequestParams, codec: Codec, principal: Principal | None = None
) -> Session:
    """The session that an admitted ``initialize`` starts; it lives once the call has been answered.

    Raises:
        ProtocolError: (``invalid_params``) the client declares more than is kept of it.
    """
    if len(msgspec.json.encode(params.capabilities)) > KEPT_CAPABILITIES:
        raise ProtocolError("invalid_params", f"the capabilities exceed {KEPT_CAPABILITIES} bytes")
    info: dict[str, Any] = msgspec.to_builtins(params.client_info)
    if len(msgspec.json.encode(info)) > CLIENT_INFO_BYTES:
        info = names_of(info)
    return Session(
        revision=codec.revision,
        codec=codec,
        capabilities=ClientCapabilities(params.capabilities),
        client_info=info,
        principal=principal,
    )


def names_of(info: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a client's description of itself where room is short: its names, not its pictures."""
    return {
        name: info[name][:NAME_KEPT]
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
    """The result of an admitted ``initialize`` call. Send it, and the session on the call is open.

    ``narrow`` answers with the server's capabilities cut down to what the client named (erlmcp).
    """
    told = intersect(capabilities, call.capabilities) if narrow else dict(capabilities)
    return InitializeResult(
        protocol_version=call.revision.name,
        capabilities=told,
        server_info=server_info,
        instructions=instructions,
    )


def intersect(offered: Mapping[str, Any], declared: Mapping[str, Any]) -> dict[str, Any]:
    """``offered`` without the features a client left out, if it named any server feature at all.

    An official client never names them, and then nothing is cut. Of an erlmcp client ``tools.listChanged`` alone says
    that it follows changes of the tools, a capability of its own: "Client can track tool list changes".
    """
    named = [name for name in SERVER_FEATURES if declared.get(name) is not None]
    own = declared.get("tools")
    if not named or (named == ["tools"] and is_object(own) and "listChanged" in own):
        return dict(offered)
    return {name: value for name, value in offered.items() if name in named or name not in SERVER_FEATURES}


def check(method: str, session: Session) -> None:
    """Refuse a request that the session does not serve in its phase."""
    if method == "ping":
        return
    if session.phase == "paused" and len(session.waiting or ()) < session.queue:
        return  # whoever runs it waits
    if session.phase in ("paused", "draining"):
        raise Refusal(1008, message=f"the session is {session.phase}")
    raise ProtocolError("not_initialized", f"the session is {session.phase}")
