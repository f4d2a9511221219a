"""One original server as the upstream of a `Proxy`. Each downstream session gets a session; the lifespan runs once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import Any, Final

from msgspec import UNSET, Raw, Struct

from ..core.principal import Principal
from ..drivers.middleware_chain import Next, Request
from ..errors import DovetailError
from ..gateway import Proxy
from ..settings import HttpOptions, Limits, Timeouts
from .memory_session import HTTP_SCOPE, Messages, RunSession, SessionConnector, incoming
from .versions import Sdk

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

NAME: Final = "the original server"


class OriginalProxy(Proxy):
    """A `Proxy` to sessions of an original server in this process."""

    def __init__(self, target: Any, name: str | None = None, **options: Any) -> None:
        super().__init__(target, name, **options)
        self.dispatcher.pipeline.add(self._around)

    def _around(self, call_next: Next) -> Next:
        async def run(request: Request) -> Struct | Raw:
            call = request.call
            token = incoming.set(call)
            if call.method.endswith("/list") and getattr(call.params, "cursor", UNSET) is UNSET:
                # The originals notify at most the session that changed a list, so a cached list may be outdated.
                self.remote.forget_lists()
            try:
                return await call_next(request)
            finally:
                incoming.reset(token)

        return run


class ServerAdapter:
    """An original low-level ``server`` and the proxy to it; ``run`` serves one of its sessions.

    There are ``max_sessions`` at most. The session of clients of 2026-07-28 ends after ``idle_timeout`` seconds
    without a call, the session of a legacy client when the client ends its own.
    """

    def __init__(
        self,
        server: Any,
        run: RunSession,
        sdk: Sdk,
        http: Mapping[str, Any] | None = None,
        *,
        max_sessions: int = Limits().max_sessions,
        idle_timeout: float = HttpOptions().session_idle_timeout,
    ) -> None:
        self.server = server
        self._http = http or {}
        handlers = None if sdk.handlers is None else getattr(server, sdk.handlers)
        opener = SessionConnector(server, Messages(sdk, handlers), run, idle_timeout)
        self.proxy = OriginalProxy(
            opener,
            connections="session",
            max_connections=max_sessions,
            required=True,
            revision="legacy",
            reconnect=False,
            # The original decides how long a tool may take.
            timeouts=Timeouts(idle=None, total=None),
        )
        self._apps: dict[str | None, Any] = {}

    @property
    def name(self) -> str:
        return str(getattr(self.server, "name", NAME))

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[Any]:
        """Enter the original's lifespan, once for all sessions."""
        enter = self.server.lifespan
        async with enter(self.server) as state:
            self.server.lifespan = partial(_entered, state)
            try:
                yield self
            finally:
                self.server.lifespan = enter

    def app(self, messages_path: str | None = None) -> Any:
        """The proxy as an ASGI application, with HTTP+SSE where ``messages_path`` is given."""
        if messages_path not in self._apps:
            options: dict[str, Any] = {**self._http, "principal": principal_of}
            if messages_path is None:
                options["sse_path"] = None
            else:
                options["messages_path"] = messages_path
            self._apps[messages_path] = self.proxy.asgi(**options)
        return self._apps[messages_path]

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request to the original's MCP endpoint; its application decides the path."""
        await self.app()(
            {**scope, "path": HttpOptions().path, "root_path": "", HTTP_SCOPE: scope}, receive, send
        )

    async def handle_sse(self, scope: Scope, receive: Receive, send: Send, messages_path: str) -> None:
        """Answer a request for an event stream of HTTP+SSE."""
        root = str(scope.get("root_path", "")).rstrip("/")
        path = f"{root}{HttpOptions().sse_path}"
        await self.app(messages_path)({**scope, "path": path, HTTP_SCOPE: scope}, receive, send)

    async def handle_message(self, scope: Scope, receive: Receive, send: Send, messages_path: str) -> None:
        """Answer a message of a client of HTTP+SSE."""
        inner = {**scope, "path": messages_path, "root_path": "", HTTP_SCOPE: scope}
        await self.app(messages_path)(inner, receive, send)

    async def drain(self, seconds: float) -> None:
        """End event streams and calls over HTTP."""
        for app in self._apps.values():
            await app.drain(seconds)


def _entered(state: Any, server: Any) -> nullcontext[Any]:
    """The lifespan of a session: the state of the server's lifespan, which is running."""
    return nullcontext(state)


def principal_of(scope: Mapping[str, Any]) -> Principal | None:
    """The user that the original's own authentication has found, by client and subject."""
    user: Any = scope.get("user")
    if user is None or not getattr(user, "is_authenticated", False):
        return None
    token: Any = getattr(user, "access_token", None)
    if token is None:
        return Principal(str(user.display_name))
    claims: Mapping[str, Any] = getattr(token, "claims", None) or {}
    subject = getattr(token, "subject", None) or claims.get("sub") or token.client_id
    issuer = f"{claims.get('iss', '')} {token.client_id}"
    return Principal(str(subject), issuer, frozenset(token.scopes), claims, token.client_id)


@asynccontextmanager
async def asgi_lifespan(app: Any) -> AsyncGenerator[dict[str, Any]]:
    """Run the lifespan of an ASGI application, with its state; one that has none is left alone.

    Raises:
        DovetailError: the application reports that it failed to start; its own exception where it raises one.
    """
    events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    reports: asyncio.Queue[Any] = asyncio.Queue()
    state: dict[str, Any] = {}
    scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": state}

    async def run() -> None:
        try:
            await app(scope, events.get, reports.put)
        finally:
            reports.put_nowait(None)

    task = asyncio.get_running_loop().create_task(run())
    events.put_nowait({"type": "lifespan.startup"})
    report = await reports.get()
    if report is not None and report["type"] == "lifespan.startup.failed":
        await task
        raise DovetailError(f"the application did not start: {report.get('message', '')}")
    try:
        yield state
    finally:
        events.put_nowait({"type": "lifespan.shutdown"})
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
