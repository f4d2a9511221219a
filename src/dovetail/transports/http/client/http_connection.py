"""One HTTP/1.1 client connection: writes a request at once and parses the response as it arrives.

It has no reader task. Received data goes through the parser into the current response, and the waiting
reader is woken. A response that has arrived completely is read without waiting, and the connection is free
for the next request immediately. If a reader does not keep up, the socket is paused (backpressure), so that
nothing accumulates.

Protocol violations close the connection: unsolicited data, a second response, an unterminated header block.
"""

from __future__ import annotations

import asyncio
import math
import re
import select
import ssl
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

import httptools

from ....errors import TransportError
from ...read_buffer import shared_buffer
from ...tcp import keep_alive
from .connect_socket import ANSWER_HEAD
from .decompression import DecompressedBody, Decompressor, too_large
from .url_parts import Origin

MAX_UNREAD_BYTES: Final = 256 << 10
"""Bytes of a response that may wait for their reader before reading from the socket pauses."""

MAX_REPEATED_HEADER_LENGTH: Final = 32 << 10
"""Characters of a repeated header; joining its values has quadratic cost."""
PIECE_OVERHEAD: Final = 64
"""Memory overhead in bytes of one piece of a body."""

_PATIENCE = re.compile(r"timeout\s*=\s*(\d{1,6})\b", re.IGNORECASE).search

_NO_PIECES: Iterator[bytes] = iter(())

Free = Callable[["HttpClientConnection"], None]


class Fields(dict[str, str]):
    """Response headers with lower-case names; lookup ignores case."""

    __slots__ = ()

    def __getitem__(self, name: str) -> str:
        return super().__getitem__(name.lower())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and super().__contains__(name.lower())

    def get(self, name: str, default: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().get(name.lower(), default)


class HttpResponse(DecompressedBody):
    """The response to one request; see `client.http_client.Response`."""

    __slots__ = (
        "_connection",
        "_inflater",
        "_pieces",
        "body",
        "complete",
        "encoding",
        "error",
        "headers",
        "length",
        "size",
        "status",
        "waiter",
    )

    headers: Mapping[str, str]
    """Set together with `status`."""

    def __init__(self, connection: HttpClientConnection) -> None:
        self.status = 0
        """0: no headers received yet."""
        self.length = 0
        """The length of the body according to the headers."""
        self.encoding = ""
        self.body: deque[bytes] = deque()
        self.size = 0
        self.complete = False
        self.error: TransportError | None = None
        self.waiter: asyncio.Future[None] | None = None
        """The future of the reader that waits for more data."""
        self._connection = connection
        self._inflater: Decompressor | None = None
        self._pieces: Iterator[bytes] = _NO_PIECES

    async def read(self, limit: int) -> bytes:
        """Return the whole body."""
        if self.complete and not self.encoding and self.size <= limit:
            data = self.body[0] if len(self.body) == 1 else b"".join(self.body)
            self.body.clear()
            return data
        if self.length > limit and not self.complete:
            raise too_large(limit)
        return await super().read(limit)

    async def more(self) -> bytes | None:
        while not self.body:
            if self.complete:
                return None
            if self.error is not None:
                raise _copy(self.error)
            await self._connection.more(self)
        data = self.body.popleft()
        self.size -= len(data)
        return data

    def close(self) -> None:
        """Release the response. If the rest of it is outstanding, the connection is closed."""
        # If it is complete, another request may use the connection already.
        if not self.complete:
            self._connection.abort()

    def wake(self) -> None:
        """Wake the reader after a change."""
        waiter = self.waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class HttpClientConnection(asyncio.BufferedProtocol):
    """A connection to ``where`` (its name in messages). ``free`` is called when it can be used again."""

    def __init__(self, where: str, origin: Origin, free: Free, lost: Free) -> None:
        self.origin = origin
        self.since = 0.0
        """When it became idle; set by the pool."""
        self.keep_alive_seconds = math.inf
        """Seconds for which the server keeps an idle connection open."""
        self.reusable = True
        self.pending: Callable[[int], object] = _nothing
        """Call it with 0 to check for unread data."""
        self._loop = asyncio.get_running_loop()
        self._where = where
        self._free = free
        self._lost = lost
        self._parser: Any = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._answer: HttpResponse | None = None
        self._fields: dict[str, str] | None = None
        self._silent = 0
        self._bodiless = False
        self._open_ended = False
        self._paused = False
        self._buffer = shared_buffer()

    # --- pool interface -------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    async def request(self, data: bytes, bodiless: bool = False) -> HttpResponse:
        """Send a request and wait for the response headers. ``bodiless``: the response has no body.

        Raises:
            TransportError: the response was not received. The connection is closed then, and also after a
                cancellation.
        """
        answer = self._answer = HttpResponse(self)
        self._fields = {}
        self._silent = 0
        self._bodiless = bodiless
        if self._transport is None:
            raise self._broken("closed the connection without a response", "eof")
        self._transport.write(data)
        try:
            while not answer.status:
                if answer.error is not None:
                    raise _copy(answer.error)
                waiter = answer.waiter = self._loop.create_future()
                await waiter
        except BaseException:
            answer.close()
            raise
        return answer

    async def more(self, answer: HttpResponse) -> None:
        """Wait for more data of ``answer``, or for its end."""
        self._resume()
        waiter = answer.waiter = self._loop.create_future()
        await waiter

    def abort(self) -> None:
        """Close the connection at once."""
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()

    def fail(self, error: TransportError) -> None:
        """Close the connection and fail the waiting response with ``error``."""
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.error = error
            answer.wake()
        self.abort()

    # --- asyncio callbacks ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        connection = transport.get_extra_info("socket")
        keep_alive(connection)
        self.pending = _watch(connection.fileno())

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        answer = self._answer
        if answer is None:
            self.abort()  # unsolicited data
            return
        self._silent += nbytes
        try:
            self._parser.feed_data(self._buffer[:nbytes])
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.fail(self._broken(f"does not speak HTTP: {_reason(error)}", "protocol"))
            return
        if answer.complete:
            self._finish()
        elif self._silent > ANSWER_HEAD:
            self.fail(self._broken(f"sent more than {ANSWER_HEAD} bytes of headers", "protocol"))
            return
        elif answer.size + len(answer.body) * PIECE_OVERHEAD > MAX_UNREAD_BYTES and not self._paused:
            self._pause()
        waiter = answer.waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def eof_received(self) -> None:
        """Handle the end of the stream; asyncio closes the connection."""
        self.reusable = False
        answer = self._answer
        if answer is not None and answer.status and self._open_ended:
            answer.complete = True
            self._answer = None
            answer.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._parser = None  # it refers to this object
        self.reusable = False
        self._lost(self)
        if self._answer is not None:
            self.fail(self._why(self._answer, exc))

    # --- parser callbacks -----------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        answer = self._answer
        if answer is None or answer.complete:
            self.reusable = False  # a second response to one request

    def on_header(self, name: bytes, value: bytes) -> None:
        fields = self._fields
        if fields is None:
            return  # trailers are ignored
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        known = fields.get(key)
        if known is not None:
            if len(known) > MAX_REPEATED_HEADER_LENGTH:
                raise ValueError("a header is repeated too often")
            text = f"{known}, {text}"
        fields[key] = text

    def on_headers_complete(self) -> None:
        answer, fields = self._answer, self._fields
        if answer is None or fields is None:
            return
        status = self._parser.get_status_code()
        if status < 200:
            if status < 100 or status == 101:
                raise ValueError(f"status {status}")
            self._fields = {}  # an interim response; the final one follows
            return
        self._fields = None
        coding, length = fields.get("transfer-encoding"), fields.get("content-length")
        if coding is not None and coding.strip().lower() != "chunked":
            raise ValueError(f"unsupported Transfer-Encoding: {coding[:50]!r}")
        self._open_ended = coding is None and length is None
        if length is not None:
            answer.length = int(length)
        if "content-encoding" in fields:
            encoding = fields["content-encoding"].strip().lower()
            answer.encoding = "" if encoding == "identity" else encoding
        if "keep-alive" in fields:
            self.keep_alive_seconds = _keep_alive_seconds(fields["keep-alive"])
        answer.headers = Fields(fields)
        answer.status = status
        if self._bodiless:  # the parser would wait for a body
            answer.complete = True
            self.reusable = False

    def on_body(self, body: bytes) -> None:
        self._silent = 0
        answer = self._answer
        if answer is not None and not answer.complete:
            answer.body.append(body)
            answer.size += len(body)

    def on_message_complete(self) -> None:
        answer = self._answer
        if answer is not None and answer.status and not answer.complete:
            answer.complete = True
            if not self._parser.should_keep_alive():
                self.reusable = False

    # --- internal -------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Complete the response: the connection becomes idle or is closed."""
        self._answer = None
        transport = self._transport
        if transport is None:
            return
        # An unsent rest of the request would precede the next request.
        if self.reusable and not transport.get_write_buffer_size():
            if self._paused:
                self._resume()
            self._free(self)
        else:
            self.abort()

    def _pause(self) -> None:
        if self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    def _why(self, answer: HttpResponse, error: Exception | None) -> TransportError:
        """Return why ``answer`` has no more data."""
        if answer.status or self._silent:
            return self._broken("closed the connection in the middle of a response", "reset")
        if error is None:
            return self._broken("closed the connection without a response", "eof")
        if isinstance(error, ssl.SSLError):
            return self._broken(f"closed the TLS connection: {error}", "tls")
        return self._broken("reset the connection without a response", "reset")

    def _broken(self, what: str, cause: str) -> TransportError:
        return TransportError(f"{self._where} {what}", cause=cause)


def _nothing(timeout: int) -> object:
    return None


def _watch(descriptor: int) -> Callable[[int], object]:
    """Return a function that checks for readable data; created once, because every request calls it."""
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return poll.poll
    return lambda timeout: select.select([descriptor], [], [], timeout)[0]


def _keep_alive_seconds(said: str) -> float:
    """Parse a ``Keep-Alive`` header in seconds, minus the transit time of a request."""
    found = _PATIENCE(said)
    return math.inf if found is None else max(int(found[1]) - 1.0, int(found[1]) / 2)


def _reason(error: Exception) -> str:
    """Return the parser's or a callback's reason for rejecting the response."""
    return str(error.__context__ or error)[:200] or type(error).__name__


def _copy(error: TransportError) -> TransportError:
    """Copy an error for raising.

    A raised error refers to its frames, and those to the response that stores it.
    """
    return TransportError(error.message, cause=error.cause)
