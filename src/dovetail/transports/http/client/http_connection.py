"""One HTTP/1.1 connection of a client: a request goes out in one write, its answer is parsed as it arrives.

No task reads: what the socket brings goes through the parser into the answer of the request under way, and whoever
waits for it is woken. An answer that has arrived whole is read without waiting, and the connection is free for the
next request before the reader has looked at it. A reader that does not keep up stops the socket, nothing piles up.

What a server may not do ends the connection: speak without being asked, answer twice, send a head without end.
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
from .decompression import Body, Inflater, too_large
from .url_parts import Origin

READ_AHEAD: Final = 256 << 10
"""Bytes of an answer that wait for their reader before the socket is stopped."""

REPEATED_HEADER: Final = 32 << 10
"""Characters of a header that comes again and again; joining them costs the square of that."""
PIECE_OVERHEAD: Final = 64
"""Bytes that a piece of a body takes beside its content."""

_PATIENCE = re.compile(r"timeout\s*=\s*(\d{1,6})\b", re.IGNORECASE).search

_NO_PIECES: Iterator[bytes] = iter(())

Free = Callable[["Connection"], None]


class Fields(dict[str, str]):
    """The headers of an answer, made of their names in lower case; they are looked up without regard to case."""

    __slots__ = ()

    def __getitem__(self, name: str) -> str:
        return super().__getitem__(name.lower())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and super().__contains__(name.lower())

    def get(self, name: str, default: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().get(name.lower(), default)


class HttpResponse(Body):
    """The answer to one request; see `client.fetch.Response`."""

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
    """There when `status` is."""

    def __init__(self, connection: Connection) -> None:
        self.status = 0
        """0: its head has not arrived yet."""
        self.length = 0
        """What the head says about the length of the body."""
        self.encoding = ""
        self.body: deque[bytes] = deque()
        self.size = 0
        self.complete = False
        self.error: TransportError | None = None
        self.waiter: asyncio.Future[None] | None = None
        """Whoever waits for more of it."""
        self._connection = connection
        self._inflater: Inflater | None = None
        self._pieces: Iterator[bytes] = _NO_PIECES

    async def read(self, limit: int) -> bytes:
        """The whole body."""
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
                raise _again(self.error)
            await self._connection.more(self)
        data = self.body.popleft()
        self.size -= len(data)
        return data

    def close(self) -> None:
        """Let go of the answer; the connection is cut when the rest of it is still on its way."""
        # When it is complete, the connection may be somebody else's already.
        if not self.complete:
            self._connection.abort()

    def wake(self) -> None:
        """Something has changed."""
        waiter = self.waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class Connection(asyncio.BufferedProtocol):
    """A connection to ``where``, which is its name in messages; ``free`` is told when it can be used again."""

    def __init__(self, where: str, origin: Origin, free: Free, lost: Free) -> None:
        self.origin = origin
        self.since = 0.0
        """When it was put aside; the pool's business."""
        self.patience = math.inf
        """Seconds the server says it keeps an unused connection."""
        self.reusable = True
        self.pending: Callable[[int], object] = _nothing
        """Call it with 0 to know whether anything has come that was not read yet."""
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

    # --- for the pool ---------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    async def request(self, data: bytes, bodiless: bool = False) -> HttpResponse:
        """Send a request and wait for the head of its answer. ``bodiless``: the head is all of it.

        Raises:
            TransportError: it does not come. Also when the waiting is given up, the connection is cut.
        """
        answer = self._answer = HttpResponse(self)
        self._fields = {}
        self._silent = 0
        self._bodiless = bodiless
        if self._transport is None:
            raise self._broken("closed the connection without an answer", "eof")
        self._transport.write(data)
        try:
            while not answer.status:
                if answer.error is not None:
                    raise _again(answer.error)
                waiter = answer.waiter = self._loop.create_future()
                await waiter
        except BaseException:
            answer.close()
            raise
        return answer

    async def more(self, answer: HttpResponse) -> None:
        """Wait until something of ``answer`` arrives, or nothing will any more."""
        self._resume()
        waiter = answer.waiter = self._loop.create_future()
        await waiter

    def abort(self) -> None:
        """Cut it."""
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()

    def fail(self, error: TransportError) -> None:
        """Cut it, and tell whoever waits for an answer why."""
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.error = error
            answer.wake()
        self.abort()

    # --- what asyncio calls ---------------------------------------------------------------------------------------

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
            self.abort()  # nobody asked
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
            self.fail(self._broken(f"sent more than {ANSWER_HEAD} bytes that are no body", "protocol"))
            return
        elif answer.size + len(answer.body) * PIECE_OVERHEAD > READ_AHEAD and not self._paused:
            self._pause()
        waiter = answer.waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def eof_received(self) -> None:
        """Nothing more will come; asyncio closes the connection."""
        self.reusable = False
        answer = self._answer
        if answer is not None and answer.status and self._open_ended:
            answer.complete = True
            self._answer = None
            answer.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._parser = None  # it holds us
        self.reusable = False
        self._lost(self)
        if self._answer is not None:
            self.fail(self._why(self._answer, exc))

    # --- what the parser calls ------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        answer = self._answer
        if answer is None or answer.complete:
            self.reusable = False  # more than one answer to one request

    def on_header(self, name: bytes, value: bytes) -> None:
        fields = self._fields
        if fields is None:
            return  # trailers come after the head, and are of no use
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        known = fields.get(key)
        if known is not None:
            if len(known) > REPEATED_HEADER:
                raise ValueError("one header again and again")
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
            self._fields = {}  # a hint; the answer is still to come
            return
        self._fields = None
        coding, length = fields.get("transfer-encoding"), fields.get("content-length")
        if coding is not None and coding.strip().lower() != "chunked":
            raise ValueError(f"a transfer coding that nobody asked for: {coding[:50]!r}")
        self._open_ended = coding is None and length is None
        if length is not None:
            answer.length = int(length)
        if "content-encoding" in fields:
            encoding = fields["content-encoding"].strip().lower()
            answer.encoding = "" if encoding == "identity" else encoding
        if "keep-alive" in fields:
            self.patience = _patience(fields["keep-alive"])
        answer.headers = Fields(fields)
        answer.status = status
        if self._bodiless:  # the parser does not know, and waits for the body
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

    # --- inside ---------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """The answer is whole: the connection is free, or has served its time."""
        self._answer = None
        transport = self._transport
        if transport is None:
            return
        # What of the request is still to be sent would come before the next one.
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
        """Why there is no more of ``answer``."""
        if answer.status or self._silent:
            return self._broken("broke off its answer", "reset")
        if error is None:
            return self._broken("closed the connection without an answer", "eof")
        if isinstance(error, ssl.SSLError):
            return self._broken(f"ended the secure connection: {error}", "tls")
        return self._broken("reset the connection without an answer", "reset")

    def _broken(self, what: str, cause: str) -> TransportError:
        return TransportError(f"{self._where} {what}", cause=cause)


def _nothing(timeout: int) -> object:
    return None


def _watch(descriptor: int) -> Callable[[int], object]:
    """A function that tells what can be read; made once, because it is called before every request."""
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return poll.poll
    return lambda timeout: select.select([descriptor], [], [], timeout)[0]


def _patience(said: str) -> float:
    """A ``Keep-Alive`` header in seconds, less what a request needs to get there."""
    found = _PATIENCE(said)
    return math.inf if found is None else max(int(found[1]) - 1.0, int(found[1]) / 2)


def _reason(error: Exception) -> str:
    """What the parser, or one of our callbacks in it, has against the answer."""
    return str(error.__context__ or error)[:200] or type(error).__name__


def _again(error: TransportError) -> TransportError:
    """The same to raise. What is raised holds the frames it went through, and those hold the answer that keeps it."""
    return TransportError(error.message, cause=error.cause)
