"""`SseServerTransport`: the HTTP+SSE pair of 2024-11-05 at addresses of somebody's own application."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from ....server import Server
from ... import serving
from ...common.bounds import bound
from .http_face import Face, Receive, Scope, Send
from .transport_security import DEFAULT_MAX_REQUEST_BODY_SIZE, TransportSecuritySettings


class SseStream:
    """One client's stream: whoever runs a server on it answers that client."""

    def __init__(self, transport: SseServerTransport, scope: Scope, receive: Receive, send: Send) -> None:
        self._transport = transport
        self._request = scope, receive, send

    async def serve(self, server: Server) -> None:
        """Serve ``server`` until the client leaves."""
        await self._transport.serve(server, *self._request)


class SseServerTransport:
    """``connect_sse`` for the stream, ``handle_post_message`` for what the client posts to ``endpoint``."""

    def __init__(
        self,
        endpoint: str,
        security_settings: TransportSecuritySettings | None = None,
        max_request_body_size: int = DEFAULT_MAX_REQUEST_BODY_SIZE,
    ) -> None:
        if "://" in endpoint or endpoint.startswith("//") or "?" in endpoint or "#" in endpoint:
            raise ValueError(
                f"Given endpoint: {endpoint} is not a relative path (e.g., '/messages/'), "
                "expecting a relative path (e.g., '/messages/')."
            )
        self._endpoint = quote(endpoint if endpoint.startswith("/") else f"/{endpoint}").rstrip("/") or "/"
        self._security = security_settings
        self._most = max_request_body_size
        self._face: Face | None = None
        serving.unbound.append(self)

    @asynccontextmanager
    async def connect_sse(
        self, scope: Scope, receive: Receive, send: Send
    ) -> AsyncGenerator[tuple[SseStream, SseStream], None]:
        """Begin a stream; run a server on what is yielded."""
        if scope["type"] != "http":
            raise ValueError("connect_sse can only handle HTTP requests")
        stream = SseStream(self, scope, receive, send)
        yield stream, stream

    async def serve(self, server: Server, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request that began a stream, with the stream."""
        if self._face is None:
            bound(server, self._most, None)
            self._face = Face(server, self._security, sse_path="/sse", messages_path=self._endpoint)
        await self._face(scope, receive, send, path="/sse", root=(scope.get("root_path") or "").rstrip("/"))

    async def handle_post_message(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application for what clients post."""
        if self._face is None:
            await _not_found(send)
        else:
            await self._face(scope, receive, send, path=self._endpoint)


async def _not_found(send: Any) -> None:
    await send({"type": "http.response.start", "status": 404, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"Could not find session"})
