"""The HTTP+SSE transport of 2024-11-05: one event stream from the server, and a URL for POSTs of the client.

Both together are one lasting connection, which the duplex driver runs. Posted messages go to the driver, and messages
of the driver become events.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ....core.channel import Link, Receiver
from ....core.principal import Principal, key_of
from ....drivers.duplex import Duplex, accept
from ....errors import ProtocolError, TransportError
from ....stores.base import StoreError
from ....wire.sse import encode_event
from .disconnects import DisconnectWatch
from .event_streams import EventStreamResponse, stream_refusal
from .http_exchange import Exchange, refuse
from .identity import until_expiry

if TYPE_CHECKING:
    from ....cluster.message_bus import Acknowledgement, MessageBus, SseMessage
    from .app_state import AppParts

Fields = Sequence[tuple[bytes, bytes]]

_CREDENTIALS: Final = ("authorization", "proxy-authorization", "cookie")


class EventLink(Link):
    """The link of the duplex driver that writes to the event stream."""

    def __init__(self, stream: EventStreamResponse) -> None:
        self.stream = stream

    def send(self, message: bytes) -> None:
        self.stream.write(encode_event(message, event="message"))
        self.blocked = self.stream.full

    async def drain(self) -> None:
        await self.stream.drain()
        self.blocked = False

    def pause(self) -> None:
        """Do nothing: each POST is a separate request."""

    def resume(self) -> None: ...

    def close(self) -> None:
        self.stream.close_soon()

    def abort(self) -> None:
        self.stream.abandon()


class SseTransport:
    """The HTTP+SSE connections of one app."""

    def __init__(self, parts: AppParts, mail: MessageBus | None) -> None:
        self._service = parts.service
        self._credentials = frozenset(name.encode() for name in (*_CREDENTIALS, *parts.identity.headers))
        """Headers that are never sent through a store. The other process uses those of the stream."""
        self._mail = mail
        if mail is not None:
            from ....cluster.message_bus import SseMessage  # a single process does not need it

            mail.handlers[SseMessage] = self._arrived
        self._options = parts.options
        self._streams = parts.streams
        self._live: dict[str, tuple[Duplex, Principal | None]] = {}

    async def stream(self, exchange: Exchange, principal: Principal | None) -> None:
        """Answer the GET: open the stream, and send the URL for POSTs as its first event."""
        limits, admission = self._service.limits, self._service.admission
        busy = stream_refusal(limits.max_streams, principal, [stream.principal for stream in self._streams])
        if busy is not None:
            await refuse(exchange, admission, busy, status=503)
            return
        id = secrets.token_urlsafe(24) + ("" if self._mail is None else f".{self._mail.worker_id}")
        stream = EventStreamResponse(exchange, limits.max_write_buffer_bytes, self._options.write_timeout)
        stream.principal = principal
        scope = {**exchange.scope, "transport": "sse"}
        duplex = accept(
            self._service,
            principal=principal,
            scope=scope,
            limits=limits.on_events(),
            begins=True,
            quiet=self._options.session_ping_interval,
        )
        stream.write(encode_event(self._address(exchange, id), event="endpoint"))
        receiver: Receiver = duplex
        receiver.connected(EventLink(stream))
        self._live[id] = (duplex, principal)
        self._streams.add(stream)
        watch = DisconnectWatch(exchange, stream.abandon)
        try:
            drain = self._options.shutdown_grace_period
            with until_expiry(principal, self._service.clock(), lambda: duplex.close(drain=drain)):
                await stream.wait()
        finally:
            watch.stop()
            del self._live[id]
            self._streams.discard(stream)
            gone = TransportError("the client closed its stream", cause="eof") if watch.disconnected else None
            duplex.lost(gone)
        await duplex.wait_closed(1.0)
        await stream.finish()

    def _address(self, exchange: Exchange, id: str) -> bytes:
        """The URL for POSTs: an absolute path that includes the prefix of the app."""
        from urllib.parse import quote  # imported on demand

        return f"{quote(exchange.prefix)}{self._options.messages_path}?session_id={id}".encode()

    async def post(self, exchange: Exchange, body: bytes, principal: Principal | None) -> None:
        """Answer a POST with 202; the response to the message is sent on the stream."""
        from urllib.parse import parse_qs

        id, owner = parse_qs(exchange.query).get("session_id", [""])[0], key_of(principal)
        try:
            headers: Fields = exchange.scope["headers"]
            taken = self._receive(id, owner, body, headers) or await self._pass_on(id, owner, body, headers)
        except StoreError as error:
            await refuse(exchange, self._service.admission, error, status=503)
            return
        if taken:
            await exchange.answer(202)
        else:
            error = ProtocolError("session_not_found", "unknown session; open the event stream again")
            await refuse(exchange, self._service.admission, error, status=404)

    def _receive(self, id: str, owner: str | None, body: bytes, headers: Fields) -> bool:
        found = self._live.get(id)
        if found is None or key_of(found[1]) != owner:
            return False
        opened, named = found[0].endpoint.scope, {name for name, _ in headers}
        kept = [(name, value) for name, value in opened["headers"] if name not in named]
        found[0].received(body, {**opened, "headers": [*headers, *kept]})
        return True

    async def _pass_on(self, id: str, owner: str | None, body: bytes, headers: Fields) -> bool:
        """Forward a message to the process that has the stream; True if that process has accepted it."""
        worker = id.partition(".")[2]
        if self._mail is None or worker in ("", self._mail.worker_id):
            return False
        from ....cluster.message_bus import Acknowledgement, SseMessage

        told = [(name, value) for name, value in headers if name not in self._credentials]
        reply = await self._mail.request(worker, SseMessage(id, owner, body, told))
        return isinstance(reply, Acknowledgement) and reply.well

    def _arrived(self, letter: SseMessage, sender: str) -> Acknowledgement:
        from ....cluster.message_bus import Acknowledgement

        return Acknowledgement(
            self._receive(letter.connection, letter.principal, letter.message, letter.headers)
        )

    async def close(self, seconds: float) -> None:
        """End every connection; calls in flight get ``seconds``."""
        await asyncio.gather(*(duplex.close(drain=seconds) for duplex, _ in list(self._live.values())))
