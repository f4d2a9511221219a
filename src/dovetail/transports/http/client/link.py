"""The client link for Streamable HTTP, revisions 2025-03-26 and later.

Every message is a POST. Each request gets its response in the HTTP response of its POST, as JSON or as an
event stream. The exchange runs in the caller's task, so cancelling the caller closes it. Legacy sessions add
a session id header, a GET stream for messages that belong to no request, resumption with ``Last-Event-ID``,
and a DELETE at the end.

`HttpLink` is shared with HTTP+SSE of 2024-11-05 (`sse_link`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, Final

from msgspec import UNSET, Struct

from ....client.client_config import ClientConfig
from ....client.conversation import TURN_BYTES, TURN_MESSAGES, Conversation
from ....client.http_client import Fetch, Response
from ....core.channel import Link
from ....drivers.requests import OutgoingRequest
from ....errors import DovetailError, RemoteProtocolError, SessionLost, TransportError
from ....kinds import INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND
from ....wire.frames import Frame, decode
from ....wire.headers import VERSION_HEADER, cached_routing_headers, routing_headers
from ....wire.methods import METHODS
from ....wire.revisions import Revision
from ....wire.sse import EventParser, SseEvent
from .http_requests import (
    AUTHORIZATION_ADVICE,
    ERROR_EXCERPT,
    OriginRequests,
    excerpt,
    media_type,
    quote,
    refusal_reason,
    status_error,
)

SHORTEST_RETRY: Final = 0.1
"""The shortest pause between two attempts, in seconds, whatever the server asks for."""
GOODBYE: Final = 2.0
"""Seconds that the server has to answer the DELETE of a session."""
HEADER_NAME_KEPT: Final = 256
"""Longest name in characters whose headers are cached: clients choose the names that a gateway forwards."""


MAX_SESSION_ID_LENGTH: Final = 8 << 10
"""Maximum length in characters; every request contains it, and servers limit header blocks."""
DEFAULT_STREAM_RETRY: Final = 1.0
"""Seconds before a broken stream is resumed, if the server sent no retry time."""
LONGEST_RETRY: Final = 60.0
MAX_EMPTY_RESUMES: Final = 10
"""Consecutive resumptions of one stream without an event, before it is given up."""
BACKGROUND_POST_TIMEOUT: Final = 30.0
"""Timeout in seconds for a POST without a waiting caller; it must not occupy a connection forever."""
BACKGROUND_POST_DELAYS: Final = (0.1, 0.5, 2.0)
"""Seconds between retries of such a POST after a broken connection or a temporary refusal."""

log = logging.getLogger("dovetail.client")

SESSION_HEADER = "Mcp-Session-Id"
POST_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
GET_HEADERS = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
_AWAY = frozenset({408, 429, 500, 502, 503, 504})
_NOT_FOUND = frozenset({METHOD_NOT_FOUND, INVALID_PARAMS, RESOURCE_NOT_FOUND})
"""Errors that some servers send with status 404 as the response to a request. They do not end the session."""
_SESSION_ENDED = frozenset({"session_not_found", "session_expired"})
"""Errors with a request id from servers that did not run the request."""
_MEMBERS = {"name": "name", "uri": "uri", "taskId": "task_id"}


class _StreamState(Struct, eq=False):
    """The position of an event stream and its retry time."""

    last_id: str | None = None
    retry: float | None = None
    """Retry time in seconds; None if the server sent none."""
    events: int = 0
    opened: bool = False
    """The stream was open before, so a 500 is temporary; otherwise 500 may mean that the stream does not exist."""

    @property
    def pause(self) -> float:
        return DEFAULT_STREAM_RETRY if self.retry is None else self.retry


class HttpLink(Link):
    """Shared by both HTTP transports: the pool, POSTs without a caller, and closing."""

    def __init__(self, conversation: Conversation, config: ClientConfig, fetch: Fetch) -> None:
        self._conversation = conversation
        self._limits = config.limits
        self._requests = OriginRequests(config, fetch, conversation.unhurried)
        self._aside: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Task[None] | None = None
        self._spoken = conversation.endpoint.codec.revision

    @property
    def _revision(self) -> Revision:
        """The current revision, also while the connection is closing."""
        session = self._conversation.endpoint.session
        if session is not None:
            self._spoken = session.revision
        return self._spoken

    def send(self, message: bytes) -> None:
        """POST a notification or a response in the background; `drain` waits for it."""
        if self._closing is None:
            task = asyncio.get_running_loop().create_task(self._post_in_background(message))
            self._aside.add(task)
            task.add_done_callback(self._aside.discard)

    async def drain(self) -> None:
        while self._aside:
            await asyncio.wait(list(self._aside))

    def pause(self) -> None:
        """Do nothing: responses are read in the tasks of their callers."""

    def resume(self) -> None: ...

    def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._end())

    abort = close

    async def wait_closed(self) -> None:
        self.close()
        if self._closing is not None:
            await asyncio.shield(self._closing)

    async def _end(self) -> None:
        try:
            async with asyncio.timeout(GOODBYE):
                await self.drain()
                await self._end_session()
        except (TimeoutError, DovetailError):
            pass
        for task in list(self._aside):
            task.cancel()
        await self._requests.close()
        self._conversation.lost(None)

    async def _end_session(self) -> None:
        """Notify the server of the end of the session, if the transport supports it."""

    async def _post_in_background(self, message: bytes) -> None:
        """Send a message without a waiting caller, with retries.

        A repeated response or notification does no harm, but a lost one does. A retry reaches another process
        if the first one died or is overloaded.
        """
        try:
            async with asyncio.timeout(BACKGROUND_POST_TIMEOUT):
                for pause in BACKGROUND_POST_DELAYS:
                    try:
                        if await self._post_once(message) != 503:
                            return
                    except TransportError:
                        pass
                    await asyncio.sleep(pause)
                await self._post_once(message)
        except TimeoutError:
            log.warning("message not accepted timeout=%ss", BACKGROUND_POST_TIMEOUT)
        except DovetailError as error:
            log.warning("message not sent reason=%s", error.message)

    async def _post_once(self, message: bytes) -> int:
        response = await self._post(message, self._headers(None))
        try:
            if response.status >= 400:
                log.warning("message refused status=%s", response.status)
            else:
                await excerpt(response)
            return response.status
        finally:
            response.close()

    async def _post(self, message: bytes, headers: Mapping[str, str]) -> Response:
        return await self._requests.send("POST", headers, message)

    def _headers(self, outgoing: OutgoingRequest | None) -> dict[str, str]:
        raise NotImplementedError

    async def _read_events(
        self,
        chunks: AsyncIterator[bytes],
        parser: EventParser,
        take: Callable[[SseEvent], None],
        enough: Callable[[], bool],
    ) -> None:
        """Pass the events of a stream to ``take`` until it ends or is complete, a bounded number per loop
        iteration.

        Raises:
            TransportError: it broke, or is not an event stream.
        """
        try:
            async for chunk in chunks:
                for start in range(0, len(chunk), TURN_BYTES):
                    for number, event in enumerate(parser.feed(chunk[start : start + TURN_BYTES]), 1):
                        take(event)
                        if number % TURN_MESSAGES == 0:
                            await asyncio.sleep(0)
                    await asyncio.sleep(0)
                if enough():
                    return
        except RemoteProtocolError as error:
            raise TransportError(error.message, cause="protocol") from error


class StreamableLink(HttpLink):
    """Streamable HTTP. ``session_id`` is the id of a legacy session, if the server assigned one."""

    session_id: str | None = None

    async def open(self) -> None:
        await self._requests.open()
        self._conversation.connected(self, self.exchange, self.keep_stream_open)

    # --- requests -------------------------------------------------------------------------------------------

    async def exchange(self, outgoing: OutgoingRequest) -> None:
        """POST a request, and read until its response."""
        response = await self._requests.send("POST", self._headers(outgoing), outgoing.data)
        outgoing.status = response.status
        try:
            if response.status >= 300:
                await self._refused(response, outgoing)
                return
            if outgoing.method == "initialize":
                self.session_id = _session_id(response.headers)
            if media_type(response.headers) == "text/event-stream":
                await self._exchange_events(response, outgoing)
                return
            body = await response.read(self._limits.max_message_bytes)
            self._conversation.received(body)
            if not outgoing.future.done():
                raise _no_message(body, response, outgoing)
        finally:
            response.close()

    async def _refused(self, response: Response, outgoing: OutgoingRequest) -> None:
        """Raise the error of a response whose status is an error; its body may be more specific."""
        is_json = media_type(response.headers) == "application/json"
        body = await excerpt(response, self._limits.max_message_bytes if is_json else ERROR_EXCERPT)
        frame = _frame(body)
        error = None
        if frame is not None and frame.error is not UNSET:
            error = self._conversation.endpoint.codec.decode_error(frame.error)
        named = error is not None and frame is not None and frame.id == outgoing.id
        answered = named and error is not None and error.code in _NOT_FOUND
        if response.status == 404 and self.session_id is not None and not answered:
            # Streamable HTTP, Session Management: after the end of a session the server responds with 404. It
            # does so before it runs the request, with or without a body, unless the body is the error
            # response to this request.
            self._session_lost(unread=not named or (error is not None and error.kind in _SESSION_ENDED))
        if error is not None:
            # Whatever the status, a JSON-RPC error is more specific. Servers that refuse early send no id.
            reason = refusal_reason(response.status, response.headers.get("WWW-Authenticate"))
            if reason is None and response.status == 401:
                reason = AUTHORIZATION_ADVICE
            if reason is not None and reason not in error.message:
                error.message = f"{error.message}: {reason}"
                error.args = (error.message,)
            self._conversation.requests.refuse(outgoing.id, error)
            return
        raise await status_error(response, outgoing.method, body)

    def _session_lost(self, *, unread: bool) -> None:
        """Raise `SessionLost` and forget the session."""
        self.session_id = None
        reason = TransportError("the server has ended the session", cause="session")
        self._conversation.lost(reason)
        raise SessionLost(reason.message, cause="session", maybe_executed=not unread)

    async def _exchange_events(self, response: Response, outgoing: OutgoingRequest) -> None:
        stream = _StreamState()
        broken: TransportError | None = None
        try:
            await self._read_response(response, stream, outgoing)
        except TransportError as error:
            broken = error
        if outgoing.future.done():
            return
        if self._revision.modern or stream.last_id is None or (broken and broken.cause == "protocol"):
            raise broken or TransportError(
                f"the server ended the stream of {outgoing.method} without a response", cause="eof"
            )
        response.close()
        await self._resume(stream, outgoing)

    async def _resume(self, stream: _StreamState, outgoing: OutgoingRequest) -> None:
        """Resume a broken legacy stream with GET, whatever request opened it."""
        if outgoing.released is not None and stream.retry is not None:
            await outgoing.released()
        for _ in range(MAX_EMPTY_RESUMES):
            await asyncio.sleep(stream.pause)
            if outgoing.future.done():
                return
            before = stream.last_id
            try:
                response = await self._get(stream.last_id)
            except TransportError:
                continue
            try:
                if response.status != 200 or media_type(response.headers) != "text/event-stream":
                    # The outcome of the call is unknown: treat this like any other connection loss.
                    refusal = await status_error(response, f"resuming the stream of {outgoing.method}")
                    raise TransportError(refusal.message, cause="broken")
                await self._read_response(response, stream, outgoing)
            except TransportError as error:
                if error.cause in ("broken", "protocol"):
                    raise
            finally:
                response.close()
            if outgoing.future.done():
                return
            if stream.last_id == before and stream.retry is None:
                break
        raise TransportError(f"the stream of {outgoing.method} broke and could not be resumed", cause="eof")

    async def _read_response(
        self, response: Response, stream: _StreamState, outgoing: OutgoingRequest | None
    ) -> None:
        """Pass on the events of one response until it ends or the request has its response."""
        conversation = self._conversation

        def take(event: SseEvent) -> None:
            if event.id is not None:
                stream.last_id = event.id
            if event.retry is not None:
                stream.retry = min(max(event.retry / 1000, SHORTEST_RETRY), LONGEST_RETRY)
            if event.data is not None and event.event == "message":
                stream.events += 1
                conversation.received(event.data)

        def answered() -> bool:
            if outgoing is None:
                return False
            conversation.requests.touch(outgoing)
            return outgoing.future.done()

        parser = EventParser(self._limits.on_events().max_message_bytes)
        await self._read_events(response.chunks(), parser, take, answered)

    # --- general stream and DELETE --------------------------------------------------------------------------

    async def keep_stream_open(self, anew: Callable[[], None]) -> None:
        """Keep the GET stream of a legacy session open until the connection closes; 405 means that there is
        none."""
        if not self._revision.modern:
            await _until(self._conversation.gone, self._watch(anew))

    async def _watch(self, anew: Callable[[], None]) -> None:
        stream = _StreamState()
        attempts = 0
        while True:
            events = stream.events
            if not await self._watch_once(stream, anew):
                return
            attempts = 0 if stream.events > events else attempts + 1
            await asyncio.sleep(min(LONGEST_RETRY, stream.pause * 2 ** min(attempts, 6)))

    async def _watch_once(self, stream: _StreamState, anew: Callable[[], None]) -> bool:
        """Run one GET. Returns False if another one is pointless."""
        try:
            response = await self._get(stream.last_id)
        except TransportError as error:
            log.debug("no general event stream reason=%s", error.message)
            return True
        try:
            if response.status == 404 and self.session_id is not None:
                self._conversation.lost(TransportError("the server has ended the session", cause="session"))
            if response.status != 200 or media_type(response.headers) != "text/event-stream":
                if response.status in _AWAY:
                    return stream.opened or response.status != 500
                # The server cannot resume from this position, but may start a new stream.
                resumed, stream.last_id = stream.last_id is not None, None
                return resumed
            stream.opened = True
            if stream.last_id is None:
                anew()
            await self._read_response(response, stream, None)
        except TransportError as error:
            log.debug("general event stream closed reason=%s", error.message)
        finally:
            response.close()
        return True

    async def _get(self, last_id: str | None) -> Response:
        headers = {**GET_HEADERS, **self._session_headers(self._revision)}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        return await self._requests.send("GET", headers)

    async def _end_session(self) -> None:
        if self.session_id is None:
            return
        headers = self._session_headers(self._revision)
        self.session_id = None
        response = await self._requests.send("DELETE", headers)
        response.close()

    # --- headers --------------------------------------------------------------------------------------------

    def _headers(self, outgoing: OutgoingRequest | None) -> dict[str, str]:
        revision = self._revision
        if outgoing is None:
            return {**POST_HEADERS, **self._session_headers(revision)}
        own, name = outgoing.headers or {}, None
        if not revision.modern:
            first = outgoing.method == "initialize"
            return {**POST_HEADERS, **own, **({} if first else self._session_headers(revision))}
        row = METHODS.get(outgoing.method)
        if row is not None and row.name_header is not None and isinstance(outgoing.params, Struct):
            name = getattr(outgoing.params, _MEMBERS[row.name_header])
        made = cached_routing_headers if name is None or len(name) <= HEADER_NAME_KEPT else routing_headers
        return {**POST_HEADERS, **own, **made(revision.name, outgoing.method, name)}

    def _session_headers(self, revision: Revision) -> dict[str, str]:
        headers: dict[str, str] = {}
        if revision.version_header:
            headers[VERSION_HEADER] = revision.name
        if self.session_id is not None:
            headers[SESSION_HEADER] = self.session_id
        return headers


def _session_id(headers: Mapping[str, str]) -> str | None:
    """Return the session id.

    Refuse one with characters that headers do not allow, because it is sent back unchanged.
    """
    value = headers.get(SESSION_HEADER)
    if not value or not all("!" <= character <= "~" for character in value):
        return None
    if len(value) > MAX_SESSION_ID_LENGTH:
        raise TransportError(
            f"the session id of the server has {len(value)} characters; the limit is {MAX_SESSION_ID_LENGTH}",
            cause="protocol",
        )
    return value


def _frame(body: bytes) -> Frame | None:
    try:
        return decode(body)
    except RemoteProtocolError:
        return None


def _no_message(body: bytes, response: Response, outgoing: OutgoingRequest) -> TransportError:
    if not body.strip():
        what = f"{outgoing.method} got HTTP {response.status} with an empty body"
    else:
        what = f"{outgoing.method} got a response that is not an MCP message: {quote(body, response.headers)}"
    return TransportError(what, cause="protocol")


async def _until(gone: asyncio.Future[Any], work: Coroutine[Any, Any, None]) -> None:
    """Run ``work`` in the current task, and stop it when ``gone`` is done. This saves one task per client."""
    task = asyncio.current_task()
    assert task is not None
    stopped = False

    def stop(_: asyncio.Future[Any]) -> None:
        nonlocal stopped
        stopped = True
        task.cancel()

    gone.add_done_callback(stop)
    try:
        await work
    except asyncio.CancelledError:
        if not stopped or task.uncancel() > 0:
            raise
    finally:
        gone.remove_done_callback(stop)
