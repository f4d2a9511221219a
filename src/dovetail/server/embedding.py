"""`Server.handle`: one message in, one reply out, for whoever brings bytes of their own.

There is no connection here. A modern request needs none; a legacy one is served when ``scope`` names its
session or its revision, and otherwise told to initialize.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from ..core.channel import Call, Rejection, Session
from ..core.endpoint import LISTEN
from ..drivers.exchange import exchange
from ..errors import ProtocolError, RemoteProtocolError
from ..model import ClientCapabilities
from ..wire.frames import Frame, decode, decode_batch, encode_batch, is_batch

if TYPE_CHECKING:
    from .server import Server


class Aside:
    """Takes the notifications of an exchange: gives them to a callable, or to nobody."""

    __slots__ = ("_take",)

    def __init__(self, take: Callable[[bytes], None] | None) -> None:
        self._take = take

    def notify(self, message: bytes) -> None:
        if self._take is not None:
            self._take(message)

    async def drain(self) -> None:
        return None


NOBODY = Aside(None)


async def handle(server: Server, message: bytes, scope: Mapping[str, Any]) -> bytes | None:
    """See `Server.handle`."""
    session = _session(server, scope) if scope else None
    if len(message) > server.limits.message_size:
        limit = server.limits.message_size
        error = ProtocolError("message_too_large", data={"maxSize": limit, "unit": "bytes"})
        return server.admission.refuse(error, None, session).body
    try:
        frame = decode(message)
    except RemoteProtocolError as error:
        if is_batch(message):
            return await _batch(server, message, session, scope)
        return server.admission.refuse(error, error.id, session).body
    return await _one(server, frame, session, scope)


async def _one(
    server: Server, frame: Frame, session: Session | None, scope: Mapping[str, Any]
) -> bytes | None:
    if frame.method is UNSET:
        # Nothing of ours is waiting for an answer here.
        error = ProtocolError("invalid_request", "a response was received, but nothing was asked")
        return server.admission.refuse(error, None, session).body
    admitted = server.admission.admit(frame, session, principal=scope.get("principal"), scope=scope)
    if type(admitted) is Call:
        take = scope.get("notify")
        if take is None and admitted.method == LISTEN:
            # It would wait for ever, and nobody would hear anything.
            error = ProtocolError("subscription_failed", "there is no stream here to listen on")
            return server.admission.refuse(error, admitted.id, codec=admitted.codec).body
        return (await exchange(server, admitted, NOBODY if take is None else Aside(take)))[0]
    return admitted.body if type(admitted) is Rejection else None


async def _batch(
    server: Server, message: bytes, session: Session | None, scope: Mapping[str, Any]
) -> bytes | None:
    admission = server.admission
    try:
        if session is None or not (session.revision.batches or session.codec.dialect.batches_on_legacy):
            raise RemoteProtocolError("invalid_request", "batches are not part of this revision")
        entries = decode_batch(message, server.limits.batch_size)
    except RemoteProtocolError as error:
        return admission.refuse(error, error.id, session).body
    replies = await asyncio.gather(
        *(
            _one(server, entry, session, scope)
            if isinstance(entry, Frame)
            else _refused(server, entry, session)
            for entry in entries
        )
    )
    written = [reply for reply in replies if reply is not None]
    return encode_batch(written) if written else None


async def _refused(server: Server, error: RemoteProtocolError, session: Session | None) -> bytes:
    return server.admission.refuse(error, error.id, session).body


def _session(server: Server, scope: Mapping[str, Any]) -> Session | None:
    session = scope.get("session")
    if session is not None:
        return session
    codec = server.admission.codecs.get(scope.get("revision", ""))
    if codec is None or codec.revision.modern:
        return None
    declared = ClientCapabilities(scope.get("capabilities") or {})
    return Session(revision=codec.revision, codec=codec, capabilities=declared, phase="ready")
