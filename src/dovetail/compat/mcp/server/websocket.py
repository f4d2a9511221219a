"""``websocket_server()``: one client's WebSocket at an address of somebody's own application."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ....server import Server
from .http_face import Face, Receive, Scope, Send
from .transport_security import TransportSecuritySettings


class WebSocketStream:
    """One client's socket: whoever runs a server on it answers that client."""

    def __init__(
        self, security: TransportSecuritySettings | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        self._security = security
        self._request = scope, receive, send

    async def serve(self, server: Server) -> None:
        """Serve ``server`` until the client leaves."""
        await Face(server, self._security)(*self._request, path="/mcp")


@asynccontextmanager
async def websocket_server(
    scope: Scope, receive: Receive, send: Send, security_settings: TransportSecuritySettings | None = None
) -> AsyncGenerator[tuple[WebSocketStream, WebSocketStream], None]:
    """Run a server on what is yielded; it is accepted then."""
    if scope["type"] != "websocket":
        raise ValueError("websocket_server can only handle WebSocket requests")
    stream = WebSocketStream(security_settings, scope, receive, send)
    yield stream, stream
