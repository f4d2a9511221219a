"""Legacy clients without a session: every POST stands alone, nothing is kept and nobody can be asked.

This is what ``stateless=True`` serves; of a server with sessions it answers only ``ping`` and refusals.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from msgspec import UNSET

from ....core.channel import Call, Event, NoBackChannel, Reply, Session
from ....core.endpoint import INITIALIZE, Endpoint
from ....drivers.exchange import exchange
from ....drivers.run import mask
from ....errors import DovetailError, ProtocolError, RemoteProtocolError
from ....model import ClientCapabilities
from ....settings import HttpOptions
from ....wire.frames import Frame, RequestId
from ....wire.headers import RoutingHeaders
from ....wire.revisions import BY_NAME
from .asgi import Scope, Send, answer, refuse
from .event_streams import SILENCE, EventStream, Silence
from .service import HttpService
from .session_calls import shutting_down

ASSUMED: Final = "2025-03-26"
"""The revision of a request that names none and belongs to no session."""


class Stateless:
    """Answers legacy POSTs that belong to no session."""

    def __init__(self, service: HttpService, options: HttpOptions, running: set[Any]) -> None:
        self._service = service
        self._options = options
        self._running: set[asyncio.Task[Any]] = running
        self.draining = False

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
        service = self._service
        endpoint = Endpoint(service.admission, service.limits, principal=principal)
        if isinstance(frame, RemoteProtocolError) or frame.method != INITIALIZE:
            name = routing.version or ASSUMED
            if BY_NAME[name] not in service.admission.revisions:
                reason = f"unsupported protocol version; supported: {', '.join(service.admission.supported)}"
                data = {"supported": list(service.admission.supported), "requested": name}
                error = ProtocolError("unsupported_protocol_version", reason, data=data)
                await refuse(send, service.admission, error, id=id_of(frame), status=400)
                return
            endpoint.session = Session(
                revision=BY_NAME[name],
                codec=service.admission.codecs[name],
                capabilities=ClientCapabilities(),
                principal=principal,
                phase="ready",
            )
        await self.once(scope, send, routing, endpoint, body)

    async def once(
        self, scope: Scope, send: Send, routing: RoutingHeaders, endpoint: Endpoint, body: bytes
    ) -> None:
        """Answer what ``body`` holds, with nothing but ``endpoint`` to remember it by."""
        event = endpoint.receive(body, headers=routing, scope=scope)
        match event:
            case Call():
                await self._call(event, send)
            case Reply():
                await answer(send, event.status, event.data)
            case list():
                replies = [await self._member(endpoint, one) for one in event]
                data = next((reply for reply in reversed(replies) if reply is not None), None)
                await answer(send, 202 if data is None else 200, data or b"")
            case _:
                await answer(send, 202)

    async def _call(self, call: Call, send: Send) -> None:
        stream: EventStream | Silence = SILENCE
        if not self._options.json_only:
            stream = EventStream(send, self._service.limits.write_buffer)
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            data, error = await exchange(self._service, call, stream)
        except asyncio.CancelledError:
            if not self.draining:
                raise
            task.uncancel()
            error = shutting_down()
            data = call.codec.encode_error(call.id, error)
        finally:
            self._running.discard(task)
        if stream.started or stream.pending:
            await stream.finish(data)
        else:
            status = 200 if error is None else self._service.admission.status_of(error, call.revision)
            await answer(send, status, data)

    async def _member(self, endpoint: Endpoint, event: Event) -> bytes | None:
        """2025-03-26: one message of an array. The last one settled brings the replies of all."""
        if isinstance(event, Reply):
            return event.data
        if not isinstance(event, Call):
            return None
        try:
            return endpoint.send_result(event, await self._service.respond(event, Nowhere()))
        except DovetailError as error:
            return endpoint.send_error(event, error)
        except Exception:  # noqa: BLE001  the net below the service
            return endpoint.send_error(event, mask(event.method))


class Nowhere:
    """A channel for calls that stand alone inside an array: nothing can be said before the reply."""

    def notify(self, method: str, params: Any) -> None: ...

    async def request(self, method: str, params: Any) -> Any:
        raise NoBackChannel

    async def drain(self) -> None: ...


def id_of(frame: Frame | RemoteProtocolError | None) -> RequestId | None:
    """The id to answer under, if what came was a request."""
    if frame is None or isinstance(frame, RemoteProtocolError) or frame.method is UNSET:
        return None
    return None if frame.id is UNSET else frame.id
