"""`StreamableHTTPSessionManager`: a low-level server at an address of somebody's Starlette application."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from ... import serving
from ...common.bounds import bound, history_of
from ...serving import Served
from .http_face import Face, Receive, Scope, Send
from .streamable_http import EventStore
from .transport_security import DEFAULT_MAX_REQUEST_BODY_SIZE, TransportSecuritySettings

DEFAULT_SESSION_IDLE_TIMEOUT: Final = 1800
DEFAULT_MAX_SESSIONS: Final = 10_000


class StreamableHTTPSessionManager:
    """Answers every revision at the place where ``handle_request`` is mounted; sessions are ours."""

    def __init__(
        self, app: Served, event_store: EventStore | None = None, json_response: bool = False,
        stateless: bool = False, security_settings: TransportSecuritySettings | None = None,
        retry_interval: int | None = None, session_idle_timeout: float | None = DEFAULT_SESSION_IDLE_TIMEOUT,
        max_request_body_size: int = DEFAULT_MAX_REQUEST_BODY_SIZE,
        max_sessions: int | None = DEFAULT_MAX_SESSIONS,
    ) -> None:  # fmt: skip
        self.app = app
        self.event_store = event_store
        self.json_response = json_response
        self.stateless = stateless
        self.security_settings = security_settings
        self._options: dict[str, Any] = {"json_only": json_response, "stateless": stateless}
        if retry_interval is not None:
            self._options["retry"] = retry_interval
        if session_idle_timeout is not None:
            self._options["session_idle"] = float(session_idle_timeout)
        self._face: Face | None = None
        self._started = False
        serving.prepared.append(lambda: app.native)
        self._bounds = max_request_body_size, max_sessions
        self._history = history_of(event_store)

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None, None]:
        """Be ready for requests; once, as theirs."""
        if self._started:
            raise RuntimeError(
                "StreamableHTTPSessionManager .run() can only be called once per instance. "
                "Create a new instance if you need to run again."
            )
        self._started = True
        bound(self.app.native, *self._bounds)
        if self._history is not None:
            self.app.native.event_history = self._history
        face = self._face = Face(self.app.native, self.security_settings, **self._options)
        await face.start()
        try:
            yield
        finally:
            self._face = None
            await face.stop()

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application: mount it where the server is to be found."""
        if self._face is None:
            raise RuntimeError("Task group is not initialized. Make sure to use run().")
        await self._face(scope, receive, send, path="/mcp")
