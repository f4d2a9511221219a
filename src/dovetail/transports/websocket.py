"""The client link for WebSocket: one message per text frame, without tasks or queues.

The `websockets` package implements the protocol without I/O; bytes go directly from the socket to the
receiver. The server side of WebSocket is part of the HTTP application.

A received frame may contain several messages separated by newlines (erlmcp servers send such frames); each
sent frame has one. A ping is sent every `WEBSOCKET_PING` seconds (heartbeat). A connection without a pong for
that long is closed.
"""

from __future__ import annotations

import asyncio
import logging
import ssl as tls
from collections import deque
from collections.abc import Mapping
from typing import Final, cast

from .. import extras
from ..client.conversation import TURN_BYTES, TURN_MESSAGES
from ..client.http_client import StatusError
from ..core.channel import Link, Receiver
from ..drivers.heartbeat import Heartbeat
from ..errors import RequestTimeout, TransportError
from ..settings import Limits
from .http.client.connect_socket import open_connection
from .http.client.http_requests import quote, status_advice
from .http.client.url_parts import displayed
from .http.client.url_routes import request, route_to
from .read_buffer import shared_buffer, taken
from .stream import Waiters, lost_because

try:
    from websockets.client import ClientProtocol
    from websockets.exceptions import PayloadTooBig
    from websockets.frames import Frame, Opcode
    from websockets.http11 import Response
    from websockets.protocol import OPEN
    from websockets.typing import Subprotocol
    from websockets.uri import parse_uri
except ImportError:
    raise extras.missing("websockets", "a WebSocket target") from None

WEBSOCKET_PING: Final = 30.0
"""Seconds between two pings, and the time that a server has to respond to one."""
WEBSOCKET_CLOSING: Final = 1.0
"""Seconds that the server has to respond to a close frame."""

SUBPROTOCOLS = ("mcp", "mcp.v1")
"""Offered in this order: the official name, then that of erlmcp."""
_QUIET = logging.Logger("dovetail.websocket", logging.WARNING)
"""Drops most log records of the library: they contain all headers, including credentials."""
_CAUSES = {1000: "eof", 1001: "eof", 1002: "protocol", 1003: "protocol", 1007: "protocol", 1009: "protocol"}


class WebSocketLink(Link, asyncio.BufferedProtocol):
    """A link that is also the asyncio protocol of its socket. Await `opened` before using it.

    ``where`` is the name of the server in messages: its address.
    """

    def __init__(
        self,
        receiver: Receiver,
        protocol: ClientProtocol,
        headers: Mapping[str, str],
        limits: Limits,
        where: str,
    ) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._receiver = receiver
        self._protocol = protocol
        self._headers = headers
        self._limits = limits
        self._where = where
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._fragments = bytearray()
        self._fragmented = False
        self._crowded: deque[bytes] = deque()
        """Frames with several messages that wait for processing."""
        self._delivered = 0  # processed bytes of the first one
        self._closing = False
        self._ending = False
        self._over = asyncio.Event()
        self._reason: TransportError | None = None
        self._heartbeat = Heartbeat(WEBSOCKET_PING, self._ping)
        self._close_timer: asyncio.TimerHandle | None = None
        self._pinged = False
        self._waiters = Waiters()

    # --- Link -----------------------------------------------------------------------------------------------------

    def send(self, message: bytes) -> None:
        if not self._closing and self._transport is not None and self._protocol.state is OPEN:
            self._protocol.send_text(message)
            self._flush()

    async def drain(self) -> None:
        if self.blocked:
            await self._waiters.wait()

    def pause(self) -> None:
        if self._transport is not None and not self._closing:
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not (self._closing or self.blocked or self._crowded):
            self._transport.resume_reading()

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        if self._transport is None:
            return
        if self._protocol.state is OPEN:
            self._protocol.send_close(1000)
            self._flush()
        else:
            self.abort()

    def abort(self) -> None:
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    async def wait_closed(self) -> None:
        """Return when the socket is closed."""
        await self._over.wait()

    # --- asyncio callbacks ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self._limits.max_write_buffer_bytes)
        request = self._protocol.connect()
        for name, value in self._headers.items():
            if name in request.headers:
                del request.headers[name]  # otherwise both would be sent
            request.headers[name] = value
        self._protocol.send_request(request)
        self._flush()

    def get_buffer(self, sizehint: int) -> memoryview:
        return shared_buffer()[:TURN_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        self._protocol.receive_data(taken(nbytes))
        self._pinged = False
        for event in self._protocol.events_received():
            if isinstance(event, Response):
                self._shaken(event)
            elif isinstance(event, Frame):
                self._frame(event)
        self._flush()

    def eof_received(self) -> None:
        self._protocol.receive_eof()
        self._flush()

    def pause_writing(self) -> None:
        """Pause reading too (backpressure): otherwise the responses to pings would accumulate."""
        self.blocked = True
        self.pause()

    def resume_writing(self) -> None:
        self.blocked = False
        self.resume()
        self._waiters.release()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._transport = None
        self._heartbeat.stop()
        if self._close_timer is not None:
            self._close_timer.cancel()
        self.blocked = False
        self._waiters.release()
        self._over.set()
        error = self._reason or (None if exc is None else lost_because(exc, self._where))
        if not self.opened.done():
            hung_up = TransportError(
                f"{self._where} closed the connection during the WebSocket handshake", cause="eof"
            )
            self.opened.set_exception(error or hung_up)
            self.opened.exception()  # the caller may not wait for it, if TLS inside a tunnel has failed
        elif not self.opened.cancelled() and self.opened.exception() is None:
            self._reason = error
            if not self._crowded:
                self._receiver.lost(error)

    # --- internal -------------------------------------------------------------------------------------------

    def _shaken(self, response: Response) -> None:
        """Handle the handshake response."""
        if self.opened.done():
            return
        refusal = self._protocol.handshake_exc
        if refusal is not None or response.status_code != 101:
            status = response.status_code
            said = f": {quote(bytes(response.body), response.headers)}" if response.body else ""
            challenge = response.headers.get("WWW-Authenticate")
            advice = status_advice(status, challenge)
            text = f"{self._where} refused the WebSocket with HTTP {status}{said}{advice}"
            self._reason = StatusError(status, text, challenge=challenge)
            self.abort()
            return
        self.opened.set_result(None)
        self._receiver.connected(self)
        self._heartbeat.start()

    def _frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.TEXT or (frame.opcode is Opcode.CONT and self._fragmented):
            if frame.fin and not self._fragmented:
                self._deliver(bytes(frame.data))
                return
            self._fragments += frame.data
            self._fragmented = not frame.fin
            if frame.fin:
                data = bytes(self._fragments)
                self._fragments.clear()
                self._deliver(data)
        elif frame.opcode in (Opcode.BINARY, Opcode.CONT):
            self._reason = TransportError("the server sent a binary frame", cause="protocol")
            self._protocol.fail(1003, "text frames only")
        elif frame.opcode is Opcode.CLOSE and not self._closing:
            received = self._protocol.close_rcvd
            code = 1005 if received is None else received.code
            said = "" if received is None or not received.reason else f": {received.reason[:200]}"
            cause = _CAUSES.get(code, "reset")
            self._reason = TransportError(f"the server closed the WebSocket ({code}){said}", cause=cause)

    def _deliver(self, data: bytes) -> None:
        if self._crowded or b"\n" in data:
            self._crowded.append(data)
            if len(self._crowded) == 1:
                self._deliver_some()
        elif data.strip():
            self._receiver.received(data)

    def _deliver_some(self) -> None:
        """Deliver the messages of one loop iteration. Reading pauses until all are delivered."""
        data = self._crowded[0]
        end = data.find(b"\n", self._delivered + TURN_BYTES)
        end = len(data) if end < 0 else end
        messages = data[self._delivered : end].split(b"\n", TURN_MESSAGES)
        self._delivered = end + 1
        if len(messages) > TURN_MESSAGES:
            self._delivered = end - len(messages.pop())
        for message in messages:
            if message.strip():
                self._receiver.received(message)
        if self._delivered >= len(data):
            self._crowded.popleft()
            self._delivered = 0
        if self._crowded:
            self.pause()
            self._loop.call_soon(self._deliver_some)
        elif self._transport is None:
            self._receiver.lost(self._reason)
        else:
            self.resume()

    def _flush(self) -> None:
        transport = self._transport
        if transport is None:
            return
        for data in self._protocol.data_to_send():
            if data:
                transport.write(data)
            elif transport.can_write_eof():
                transport.write_eof()
        if self._protocol.parser_exc is not None and self._reason is None:
            self._fail(self._protocol.parser_exc)
        if self._protocol.close_expected() and not self._ending:
            self._ending = True  # set once: further data of the server must not delay the end
            self._close_timer = self._loop.call_later(WEBSOCKET_CLOSING, self.abort)

    def _fail(self, error: Exception) -> None:
        """Handle a violation of the WebSocket protocol; usually a message that is too large."""
        if isinstance(error, PayloadTooBig):
            self._receiver.oversized(self._limits.max_message_bytes)
        if self.opened.done():
            self._reason = TransportError(
                f"the server broke the WebSocket protocol: {error}", cause="protocol"
            )

    def _ping(self) -> bool:
        if self._pinged:
            self._reason = TransportError("the server does not respond to pings", cause="idle")
            self.abort()
            return False
        if self._protocol.state is not OPEN:
            return False  # the connection is closing
        self._pinged = True
        self._protocol.send_ping(b"")
        self._flush()
        return True


async def connect(
    receiver: Receiver,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    timeout: float | None = 30.0,
    ssl: tls.SSLContext | bool | None = None,
    proxy: str | bool = True,
) -> WebSocketLink:
    """Connect ``receiver`` to ``url`` (ws or wss). It has been notified when this returns.

    ``proxy`` is a proxy URL, False for no proxy, True for the environment. The proxy opens a tunnel.

    Raises:
        TransportError: no server listens there, the handshake was refused, or a header is invalid.
        RequestTimeout: it took longer than ``timeout`` (``limit="connect"``).
    """
    limits = (limits or Limits()).on_websocket()
    scheme, _, rest = url.partition(":")
    route = route_to(f"{'https' if scheme.lower() == 'wss' else 'http'}:{rest}", proxy)
    request("GET", route, headers or {}, None)  # refuses what the built-in HTTP client would refuse
    origin, way = route.address.origin, route.proxy
    where = displayed(url) if way is None else f"{displayed(url)} (through {way.name})"
    offered = [Subprotocol(name) for name in SUBPROTOCOLS]
    size = limits.max_message_bytes
    protocol = ClientProtocol(parse_uri(url), subprotocols=offered, max_size=size, logger=_QUIET)
    link = WebSocketLink(receiver, protocol, headers or {}, limits, where)
    try:
        async with asyncio.timeout(timeout):
            await open_connection(lambda: link, origin, where, verify=True if ssl is None else ssl, proxy=way)
            await link.opened
    except BaseException as error:
        link.abort()
        if not isinstance(error, TimeoutError):
            raise
        raise RequestTimeout(f"{where} did not respond within {timeout} s", limit="connect") from None
    return link
