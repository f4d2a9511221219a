"""One HTTP/1.1 connection of a client: a request goes out in one write, its answer is parsed as it arrives.

No task reads: what the socket brings goes through the parser into the answer of the request under way, and whoever
waits for it is woken. An answer that has arrived whole is read without waiting, and the connection is free for the
next request before the reader has looked at it. A reader that does not keep up stops the socket, nothing piles up.

What a server may not do ends the connection: speak without being asked, answer twice, send a head without end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, cast

import httptools

from ...errors import TransportError
from ..buffers import shared_buffer
from ..tcp import keep_alive
from .inflating import Inflater

HEAD = 128 << 10
"""Bytes of a head, of trailers, or of anything else that brings no body."""
HIGH = 256 << 10
"""Bytes of a body that wait for their reader before the socket is stopped."""

Free = Callable[["Connection"], None]


class Fields(Mapping[str, str]):
    """The headers of an answer; names are looked up without regard to case, repeated ones are joined by commas."""

    __slots__ = ("_fields",)

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def add(self, name: bytes, value: bytes) -> None:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        known = self._fields.get(key)
        self._fields[key] = text if known is None else f"{known}, {text}"

    def __getitem__(self, name: str) -> str:
        return self._fields[name.lower()]

    def get(self, name: str, default: Any = None) -> Any:
        return self._fields.get(name.lower(), default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


class Answer:
    """The answer to one request; see `client.fetch.Response`."""

    __slots__ = (
        "_connection",
        "_inflater",
        "_waiter",
        "body",
        "complete",
        "error",
        "headers",
        "size",
        "status",
    )

    def __init__(self, connection: Connection) -> None:
        self.status = 0
        """0: its head has not arrived yet."""
        self.headers = Fields()
        self.body: deque[bytes] = deque()
        self.size = 0
        self.complete = False
        self.error: TransportError | None = None
        self._connection = connection
        self._waiter: asyncio.Future[None] | None = None
        self._inflater: Inflater | None = None

    async def head(self) -> Answer:
        """Wait for the head."""
        while not self.status:
            await self._more()
        encoding = self.headers.get("content-encoding", "").strip().lower()
        if encoding and encoding != "identity":
            self._inflater = Inflater(encoding)
        return self

    async def read(self, limit: int) -> bytes:
        """The whole body."""
        length = self.headers.get("content-length", "")
        if length.isdigit() and int(length[:18]) > limit:
            raise _too_large(limit)
        if self.complete and self._inflater is None and self.size <= limit:
            data = self.body[0] if len(self.body) == 1 else b"".join(self.body)
            self.body.clear()
            return data
        pieces: list[bytes] = []
        size = 0
        async for piece in self.chunks():
            size += len(piece)
            if size > limit:
                raise _too_large(limit)
            pieces.append(piece)
        return b"".join(pieces)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        inflater = self._inflater
        while True:
            if not self.body:
                if self.complete:
                    break
                await self._more()
                continue
            data = self.body.popleft()
            self.size -= len(data)
            if inflater is None:
                yield data
            else:
                for piece in inflater.feed(data):
                    yield piece
        if inflater is not None:
            inflater.finish()

    def close(self) -> None:
        """Let go of the answer; the connection is cut when the rest of it is still on its way."""
        if not self.complete:
            self._connection.abort()

    def wake(self) -> None:
        """Something has changed."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def _more(self) -> None:
        """Wait until something arrives.

        Raises:
            TransportError: nothing more will.
        """
        if self.error is not None:
            raise self.error
        self._connection.resume()
        waiter = self._waiter = self._connection.loop.create_future()
        try:
            await waiter
        finally:
            self._waiter = None


class Connection(asyncio.BufferedProtocol):
    """A connection to ``where``, which is its name in messages; ``free`` is told when it can be used again."""

    def __init__(self, where: str, free: Free, lost: Free) -> None:
        self.loop = asyncio.get_running_loop()
        self.since = 0.0
        """When it was put aside; the pool's business."""
        self._where = where
        self._free = free
        self._lost = lost
        self._parser: Any = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._answer: Answer | None = None
        self._fields: Fields | None = None
        self._silent = 0
        self._open_ended = False
        self._reusable = True
        self._paused = False

    # --- for the pool ---------------------------------------------------------------------------------------------

    async def request(self, data: bytes) -> Answer:
        """Send a request and wait for the head of its answer.

        Raises:
            TransportError: it does not come. Also when the waiting is given up, the connection is cut.
        """
        answer = self._answer = Answer(self)
        self._fields = answer.headers
        self._silent = 0
        transport = self._transport
        if transport is None or transport.is_closing():
            raise self._broken("closed the connection without an answer", "eof")
        transport.write(data)
        try:
            return await answer.head()
        except BaseException:
            self.abort()
            raise

    @property
    def descriptor(self) -> int:
        connection = None if self._transport is None else self._transport.get_extra_info("socket")
        return -1 if connection is None else connection.fileno()

    def abort(self) -> None:
        """Cut it."""
        self._reusable = False
        if self._transport is not None:
            self._transport.abort()

    def resume(self) -> None:
        """The reader has taken what there was."""
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    # --- what asyncio calls ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        keep_alive(transport.get_extra_info("socket"))

    def get_buffer(self, sizehint: int) -> memoryview:
        return shared_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        answer = self._answer
        if answer is None:
            self.abort()  # nobody asked
            return
        self._silent += nbytes
        try:
            self._parser.feed_data(shared_buffer()[:nbytes])
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(
                self._broken(f"does not speak HTTP: {str(error)[:200] or type(error).__name__}", "protocol")
            )
            return
        if self._silent > HEAD:
            self._fail(self._broken(f"sent more than {HEAD} bytes that are no body", "protocol"))
        elif answer.complete:
            self._finish()
        elif answer.size > HIGH and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        answer.wake()

    def eof_received(self) -> None:
        """Nothing more will come; asyncio closes the connection."""
        answer = self._answer
        if answer is not None and answer.status and self._open_ended:
            answer.complete = True
            self._reusable = False
            self._answer = None
            answer.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._parser = None  # it holds us
        self._reusable = False
        self._lost(self)
        answer = self._answer
        if answer is None or answer.error is not None:
            return
        if exc is not None or answer.status or self._silent:
            self._fail(self._broken("broke off its answer", "reset"))
        else:
            self._fail(self._broken("closed the connection without an answer", "eof"))

    # --- what the parser calls ------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        answer = self._answer
        if answer is None or answer.complete:
            self._reusable = False  # more than one answer to one request

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._fields is not None:  # trailers come after the head, and are of no use
            self._fields.add(name, value)

    def on_headers_complete(self) -> None:
        answer = self._answer
        status = self._parser.get_status_code()
        if answer is None or answer.complete or answer.status:
            return
        if status < 200:
            answer.headers = self._fields = Fields()  # a hint; the answer is still to come
            return
        fields, self._fields = answer.headers, None
        chunked = fields.get("transfer-encoding", "").lower().rstrip().endswith("chunked")
        self._open_ended = not chunked and "content-length" not in fields
        answer.status = status

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
                self._reusable = False

    # --- inside ---------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """The answer is whole: the connection is free, or has served its time."""
        self._answer = None
        transport = self._transport
        if transport is None:
            return
        if self._reusable and not transport.is_closing() and not transport.get_write_buffer_size():
            self.resume()
            self._free(self)
        else:
            self._reusable = False
            transport.abort()

    def _fail(self, error: TransportError) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.error = error
            answer.wake()
        self.abort()

    def _broken(self, what: str, cause: str) -> TransportError:
        return TransportError(f"{self._where} {what}", cause=cause)


def _too_large(limit: int) -> TransportError:
    return TransportError(f"the answer exceeds {limit} bytes", cause="protocol")
