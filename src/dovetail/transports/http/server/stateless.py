"""Legacy clients without a session: every POST stands alone, nothing is kept and nobody can be asked.

This is what ``stateless=True`` serves; of a server with sessions it answers only ``ping`` and refusals.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from msgspec import UNSET, Struct

from ....core.channel import Call, Event, NoBackChannel, PlainChannel, Reply, Session
from ....core.endpoint import INITIALIZE, Endpoint
from ....drivers.run import Runner
from ....errors import RemoteProtocolError
from ....model import ClientCapabilities
from ....settings import HttpOptions
from ....wire.frames import Frame, RequestId
from ....wire.revisions import BY_NAME
from .event_streams import EventStream
from .exchange import Exchange, HttpService, Posted, refuse
from .waiting import Work

ASSUMED: Final = "2025-03-26"
"""The revision of a request that names none and belongs to no session."""


class Stateless:
    """Answers legacy POSTs that belong to no session."""

    def __init__(
        self, service: HttpService, options: HttpOptions, runner: Runner, running: set[Work]
    ) -> None:
        self._service = service
        self._options = options
        self._runner = runner
        self._running = running

    async def post(self, posted: Posted) -> None:
        """Answer one POST as the revision of its header, or as the one that is assumed."""
        admission, frame = self._service.admission, posted.frame
        endpoint = Endpoint(admission, self._service.limits, principal=posted.principal)
        if isinstance(frame, RemoteProtocolError) or frame.method != INITIALIZE:
            name = posted.routing.version or ASSUMED
            if BY_NAME[name] not in admission.revisions:
                error = admission.unsupported(name)
                await refuse(posted.exchange, admission, error, id=id_of(frame), status=400)
                return
            endpoint.session = Session(
                revision=BY_NAME[name],
                codec=admission.codecs[name],
                capabilities=ClientCapabilities(),
                principal=posted.principal,
                phase="ready",
            )
        await self.once(posted, endpoint)

    async def once(self, posted: Posted, endpoint: Endpoint) -> None:
        """Answer what was posted, with nothing but ``endpoint`` to remember it by."""
        exchange = posted.exchange
        event = endpoint.receive(posted.body, headers=posted.routing, scope=exchange.scope)
        match event:
            case Call():
                await self._call(endpoint, event, exchange)
            case Reply():
                await exchange.answer(event.status, event.data)
            case list():
                replies = [await self._member(endpoint, one) for one in event]
                data = next((reply for reply in reversed(replies) if reply is not None), None)
                await exchange.answer(202 if data is None else 200, data or b"")
            case _:
                await exchange.answer(202)

    async def _call(self, endpoint: Endpoint, call: Call, exchange: Exchange) -> None:
        stream = None
        if not self._options.json_only:
            stream = EventStream(exchange, self._service.limits.write_buffer, self._options.write_timeout)
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            data, error = await self._runner.run(call, LonelyChannel(call, stream), endpoint)
        finally:
            self._running.discard(task)
        if stream is not None and stream.started:
            await stream.finish(data)
        elif data is not None:
            status = 200 if error is None else self._service.admission.status_of(error, call.revision)
            await exchange.answer(status, data)

    async def _member(self, endpoint: Endpoint, event: Event) -> bytes | None:
        """2025-03-26: one message of an array. The last one settled brings the replies of all."""
        if isinstance(event, Reply):
            return event.data
        if not isinstance(event, Call):
            return None
        return (await self._runner.run(event, LonelyChannel(event, None), endpoint))[0]


class LonelyChannel(PlainChannel, Struct, eq=False):
    """What a call that stands alone may say before its reply; nobody can be asked."""

    call: Call
    stream: EventStream | None

    def notify(self, method: str, params: Struct | None) -> None:
        if self.stream is not None and not self.call.cancelled:
            self.stream.notify(self.call.codec.encode_notification(method, params))

    async def request(self, method: str, params: Struct) -> Any:
        raise NoBackChannel

    async def drain(self) -> None:
        if self.stream is not None:
            await self.stream.drain()


def id_of(frame: Frame | RemoteProtocolError | None) -> RequestId | None:
    """The id to answer under, if what came was a request."""
    if frame is None or isinstance(frame, RemoteProtocolError) or frame.method is UNSET:
        return None
    return None if frame.id is UNSET else frame.id
