"""The client link for HTTP+SSE of 2024-11-05: a GET stream from the server, and a POST for each client
message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from urllib.parse import urljoin

from ....client.client_config import ClientConfig
from ....client.conversation import Conversation
from ....client.http_client import Fetch, Response
from ....drivers.requests import OutgoingRequest
from ....errors import SessionLost, TransportError
from ....wire.headers import VERSION_HEADER
from ....wire.sse import EventParser, SseEvent
from .http_requests import excerpt, media_type, status_error
from .link import GET_HEADERS, POST_HEADERS, HttpLink
from .url_parts import same_origin


class SseLink(HttpLink):
    """HTTP+SSE of 2024-11-05: the stream is the session; the session ends with it."""

    def __init__(self, conversation: Conversation, config: ClientConfig, fetch: Fetch) -> None:
        super().__init__(conversation, config, fetch)
        self._endpoint: str | None = None
        self._response: Response | None = None
        self._parser = EventParser(self._limits.on_events().max_message_bytes)
        self._reader: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Open the stream; its first event contains the URL for POSTs.

        Raises:
            TransportError: the URL has no such stream, or the POST URL has another origin.
        """
        await self._requests.open()
        try:
            response = self._response = await self._requests.send("GET", GET_HEADERS)
            if response.status != 200 or media_type(response.headers) != "text/event-stream":
                raise await status_error(response, "the event stream of HTTP+SSE")
            chunks = response.chunks()
            await self._read_events(chunks, self._parser, self._take, lambda: self._endpoint is not None)
            if self._endpoint is None:
                raise TransportError("the event stream ended before its endpoint event", cause="eof")
        except BaseException:
            if self._response is not None:
                self._response.close()
            await self._requests.close()
            raise
        self._conversation.connected(self, self.exchange)
        self._reader = asyncio.get_running_loop().create_task(self._read(chunks))

    def _take(self, event: SseEvent) -> None:
        if event.event == "endpoint" and event.data and self._endpoint is None:
            self._endpoint = self._resolve(event.data)
        elif event.event == "message" and event.data is not None and self._endpoint is not None:
            self._conversation.received(event.data)

    def _resolve(self, data: bytes) -> str:
        url = urljoin(self._requests.url, data.decode(errors="replace").strip())
        if not same_origin(url, self._requests.url):
            raise TransportError(
                "the endpoint event of the server has another origin; it is refused", cause="redirect"
            )
        return url

    async def _read(self, chunks: AsyncIterator[bytes]) -> None:
        error: TransportError | None = None
        try:
            await self._read_events(chunks, self._parser, self._take, lambda: False)
        except TransportError as broken:
            error = broken
        self._conversation.lost(error)

    async def exchange(self, outgoing: OutgoingRequest) -> None:
        """POST a request; its response arrives on the stream."""
        headers = {**self._headers(None), **(outgoing.headers or {})}
        response = await self._post(outgoing.data, headers)
        outgoing.status = response.status
        try:
            if response.status == 404:
                # The server has no session for this stream: no further response will arrive on it.
                reason = TransportError("the server has ended the session", cause="session")
                self._conversation.lost(reason)
                raise SessionLost(reason.message, cause="session", maybe_executed=False)
            if response.status >= 300:
                raise await status_error(response, outgoing.method)
            await excerpt(response)
        finally:
            response.close()
        await asyncio.shield(outgoing.future)

    async def _post(self, message: bytes, headers: Mapping[str, str]) -> Response:
        return await self._requests.send("POST", headers, message, url=self._endpoint)

    def _headers(self, outgoing: OutgoingRequest | None) -> dict[str, str]:
        headers = {**POST_HEADERS}
        if self._revision.version_header:
            headers[VERSION_HEADER] = self._revision.name
        return headers

    async def _end(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait([self._reader])
        if self._response is not None:
            self._response.close()
        await super()._end()
