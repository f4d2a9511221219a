"""`Server.handle`: one message in, one reply out, for whoever brings bytes of their own.

There is no connection here. A modern request needs none; a legacy one is served when ``scope`` names its
session or its revision, and otherwise told to initialize.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..core.channel import Session
from ..core.principal import as_principal
from ..drivers.exchange import NOBODY, Nobody, exchange
from ..model import ClientCapabilities

if TYPE_CHECKING:
    from .server import Server


class Listener(Nobody):
    """Gives the notifications that come before the reply to a callable."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take

    def notify(self, message: bytes) -> None:
        self._take(message)


async def handle(server: Server, message: bytes | str, scope: Mapping[str, Any]) -> bytes | None:
    """See `Server.handle`."""
    take = scope.get("notify")
    _, reply = await exchange(
        server,
        message,
        session=_session(server, scope) if scope else None,
        principal=as_principal(scope.get("principal")),
        scope=scope,
        writer=NOBODY if take is None else Listener(take),
    )
    return reply


def _session(server: Server, scope: Mapping[str, Any]) -> Session | None:
    session = scope.get("session")
    if session is not None:
        return session
    codec = server.admission.codecs.get(scope.get("revision", ""))
    if codec is None or codec.revision.modern:
        return None
    declared = ClientCapabilities(scope.get("capabilities") or {})
    return Session(revision=codec.revision, codec=codec, capabilities=declared, phase="ready")
