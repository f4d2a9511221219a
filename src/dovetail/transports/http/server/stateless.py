"""Legacy clients without a session: every POST stands alone, nothing is kept and nobody can be asked.

This is what ``stateless=True`` serves; of a server with sessions it answers only ``ping`` and refusals.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from msgspec import UNSET

from ....core.channel import Session
from ....core.endpoint import INITIALIZE
from ....drivers.exchange import NOBODY, exchange
from ....drivers.run import Runner
from ....errors import RemoteProtocolError
from ....model import ClientCapabilities
from ....settings import HttpOptions
from ....wire.frames import Frame, RequestId
from ....wire.headers import RoutingHeaders
from ....wire.revisions import BY_NAME
from .asgi import Scope, Send, answer, refuse
from .event_streams import EventStream
from .service import HttpService

ASSUMED: Final = "2025-03-26"
"""The revision of a request that names none and belongs to no session."""


class Stateless:
    """Answers legacy POSTs that belong to no session."""

    def __init__(self, service: HttpService, options: HttpOptions, running: set[Any]) -> None:
        self._service = service
        self._options = options
        self._running: set[asyncio.Task[Any]] = running
        self.runner = Runner(service)

    async def post(
        self,
        scope: Scope,
        send: Send,
        routing: RoutingHeaders,
        principal: str | None,
        body: bytes,
        frame: Frame | RemoteProtocolError,
    ) -> None:
        """Answer one POST as the revision of its header, or as the one that is assumed."""
        admission = self._service.admission
        session: Session | None = None
        if isinstance(frame, RemoteProtocolError) or frame.method != INITIALIZE:
            name = routing.version or ASSUMED
            if BY_NAME[name] not in admission.revisions:
                await refuse(send, admission, admission.unsupported(name), id=id_of(frame), status=400)
                return
            session = Session(
                revision=BY_NAME[name],
                codec=admission.codecs[name],
                capabilities=ClientCapabilities(),
                principal=principal,
                phase="ready",
            )
        await self.once(scope, send, routing, principal, body, session)

    async def once(
        self,
        scope: Scope,
        send: Send,
        routing: RoutingHeaders,
        principal: str | None,
        body: bytes,
        session: Session | None = None,
    ) -> None:
        """Answer what ``body`` holds, with nothing kept of it."""
        stream = None
        if not self._options.json_only:
            stream = EventStream(send, self._service.limits.write_buffer)
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            status, data = await exchange(
                self._service,
                body,
                session=session,
                headers=routing,
                principal=principal,
                scope=scope,
                writer=NOBODY if stream is None else stream,
                runner=self.runner,
            )
        finally:
            self._running.discard(task)
        if stream is not None and (stream.started or stream.pending):
            await stream.finish(data)
        else:
            await answer(send, status, data or b"")


def id_of(frame: Frame | RemoteProtocolError | None) -> RequestId | None:
    """The id to answer under, if what came was a request."""
    if frame is None or isinstance(frame, RemoteProtocolError) or frame.method is UNSET:
        return None
    return None if frame.id is UNSET else frame.id
