"""The HTTP application: every revision on one URL.

A POST passes these checks in order: the guards (`guards`), the size of the body, JSON-RPC, the era. Then
`stateless_handler` or `session_handler` serves it. HTTP+SSE of 2024-11-05 has its own paths. Requests and
responses go through `http_exchange`, which `asgi` and the built-in server implement.

The lifespan of the ASGI server or the first request starts the service, whichever is first.
"""

from __future__ import annotations

from asyncio import CancelledError, current_task, timeout
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from ....core.channel import Call, Notice, Rejection, Violation
from ....core.metadata import is_modern
from ....core.principal import Principal
from ....drivers.middleware_chain import address_checks
from ....drivers.run import Runner, ShuttingDown, mask
from ....errors import (
    DovetailError,
    ProtocolError,
    Refusal,
    RegistrationError,
    RemoteProtocolError,
    TransportError,
    http_status,
)
from ....settings import HttpOptions
from ....telemetry.auto_instrument import metrics_wanted
from ....wire.frames import Frame, decode
from ....wire.headers import RoutingHeaders
from ....wire.revisions import BY_NAME
from . import guards
from .app_state import AppParts, AppState
from .body_reader import BodyReader, Work
from .ended_sessions import EndedSessions
from .event_streams import stream_refusal
from .guards import EVENTS, JSON, Guard, parse_accept, unreadable
from .health_routes import HealthRoutes
from .http_exchange import (
    CLOSE,
    GONE,
    Exchange,
    Headers,
    HttpService,
    PostedMessage,
    RequestHeaders,
    Socket,
    refuse,
    refused_by_address,
)
from .identity import CallerIdentity, status_of_stranger, until_expiry
from .session_handler import SESSION_HEADER, SessionHandler
from .stateless_handler import StatelessHandler

if TYPE_CHECKING:
    from ....telemetry.scraping import Scraping
    from .access_log import AccessLog
    from .custom_routes import CustomRoutes
    from .sse_transport import SseTransport

PAGE_BYTES: Final = 64 << 10
"""The maximum size of a posted form or client registration, in bytes."""


CACHED_HEADERS: Final = 256
"""Number of cached header combinations that passed the checks."""
USUAL_HEAD_BYTES: Final = 4 << 10
"""Largest header block that is cached."""

Route = Callable[[Exchange], Awaitable[bool]]
"""Serves an exchange. Returns True for a POST to the endpoint whose body is still to be read."""
BODILESS: Final = (CancelledError, TransportError, RemoteProtocolError, Refusal, *GONE)
"""Exceptions that mean that a request has an incomplete body."""


def reserved_paths(service: HttpService, options: HttpOptions, identity: CallerIdentity) -> dict[str, str]:
    """Return the paths that an app serves itself, with their purpose.

    Raises:
        RegistrationError: a custom route has one of these paths, so it would never be called.
    """
    found = dict.fromkeys((options.path, options.path.rstrip("/") + "/"), "the endpoint")
    found |= {"/livez": "the liveness probe", "/readyz": "the readiness probe"}
    if options.sse_path is not None:
        found |= {options.sse_path: "the stream of HTTP+SSE", options.messages_path: "the post of HTTP+SSE"}
    found |= dict.fromkeys(identity.metadata_paths, "the metadata")
    found |= dict.fromkeys(identity.pages, "a page of the authorization server")
    if metrics_wanted(options):
        found["/metrics"] = "the page of metrics"
    for path, who in found.items():
        for route, blanks in service.find_routes(path):
            if not blanks:  # a route with parameters matches other paths, too
                raise RegistrationError(
                    f"the route {route.path!r} is unreachable: {path!r} is the path of {who}"
                )
    return found


class HttpApp:
    """One server over HTTP, ready for `asgi.AsgiApp` and the built-in server."""

    def __init__(
        self, service: HttpService, options: HttpOptions, ended: EndedSessions | None = None
    ) -> None:
        self.service = service
        self.options = options
        self._admission = service.admission
        self._header_bytes = service.limits.max_header_bytes
        self._guard = Guard(options)
        self._checked_headers: set[Any] = set()
        """Header combinations that passed the checks, so that most requests cost one lookup."""
        self.buffered = service.admission.shared.buffered_bytes
        """Counts request bodies and unsent responses above 64 KiB: `Limits.max_buffered_bytes`."""
        self.max_websocket_message_bytes = service.limits.on_websocket().max_message_bytes
        self._bodies = BodyReader(service.limits.max_message_bytes, options.body_timeout, self.buffered)
        self._doors = address_checks(service.middleware)
        self.identity = CallerIdentity(service, options)
        runner = Runner(service, service.limits, running=service.admission.shared.requests)
        self.state = state = AppState(service, options, self._bodies, runner)
        parts = AppParts(
            service, options, runner, state.streams, state.disconnects, self.buffered, self.identity
        )
        self.session_handler = state.session_handler = SessionHandler(parts, ended)
        self.stateless_handler = state.stateless_handler = StatelessHandler(parts)
        self._parts = parts
        if self.session_handler.shared.active:
            self._sse_transport()  # other processes forward messages to it
        health = HealthRoutes(service, state, self._guard)
        found = reserved_paths(service, options, self.identity)
        answers: dict[str, Route] = {
            "the endpoint": self._endpoint,
            "the liveness probe": health.live,
            "the readiness probe": health.ready,
            "the stream of HTTP+SSE": self._sse,
            "the post of HTTP+SSE": self._messages,
            "the metadata": self.identity.describe,
            "a page of the authorization server": self._page,
        }
        self._access_log: AccessLog | None = None
        if options.access_log:
            from .access_log import AccessLog

            self._access_log = AccessLog(self.handle)
        self.scraping: Scraping | None = None
        if metrics_wanted(options):
            from ....telemetry.scraping import Scraping

            self.scraping = Scraping(service, options, self._guard, self.identity)
            answers["the page of metrics"] = self.scraping.answer
            state.measure(self.scraping.metrics)
        self._routes = {path: answers[who] for path, who in found.items()}

    @cached_property
    def _custom_routes(self) -> CustomRoutes:
        from .custom_routes import CustomRoutes  # loaded with the first path that the app does not have

        return CustomRoutes(
            self.service, self.identity, doors=self._doors, enter=self._enter, read=self._read
        )

    async def handle(self, exchange: Exchange) -> None:
        """Serve one request. This is the hot path, so function calls are inlined."""
        access_log = self._access_log
        if access_log is not None and not access_log.has(exchange):
            await access_log.handle(exchange)
            return
        get = exchange.headers.get
        key = (
            exchange.path, exchange.local, get("host"), get("origin"), get("sec-fetch-site"), get("content-type"),
            get("content-encoding"), get("accept"),
        )  # fmt: skip
        try:
            if not (
                key in self._checked_headers
                and exchange.method == "POST"
                and exchange.plain
                and not self.state.draining
            ) and not await self._check_uncached(exchange, key):
                return
            for shut, door in self._doors:
                if shut and await refused_by_address(exchange, self._admission, door):
                    return
            principal = await self.identity.principal_of(exchange) if self.identity.authenticates else None
            task = current_task(self.state.loop)
            assert task is not None
            bodies = self._bodies
            bodies.reading[task] = bodies.now
            try:
                body = await exchange.read(bodies.limit, bodies.buffered)
            except BODILESS as error:
                await self._bodiless(exchange, error, task)
                return
            finally:
                del bodies.reading[task]
            try:
                frame: Frame | RemoteProtocolError = decode(body)
            except RemoteProtocolError as error:
                frame = error
            if exchange.plain and not self._admission.param_headers:
                routing = RoutingHeaders(get("mcp-protocol-version"), get("mcp-method"), get("mcp-name"))
            else:
                routing = exchange.routing()
            if self.state.draining:  # shutdown may have started after the headers were received
                await self._refuse(exchange, ShuttingDown(), 503)
            elif not (
                routing.version in self._admission.modern
                or (
                    is_modern(frame.params, routing.version, frame.members)
                    if type(frame) is Frame
                    else is_modern(UNSET, routing.version)
                )
            ):
                await self.session_handler.post(
                    PostedMessage(exchange, body, frame, routing, principal, task)
                )
            elif type(frame) is not Frame or frame.method is UNSET:
                await self._refuse_modern(exchange, frame)
            else:
                admitted = self._admission.admit(
                    frame, None, headers=routing, principal=principal, scope=exchange.scope
                )
                if isinstance(admitted, Call):
                    await self.stateless_handler.serve(admitted, exchange, task)
                elif self.session_handler.takes(frame, exchange) and self._admission.is_check_disabled(
                    "modern-header-on-legacy"
                ):
                    await self.session_handler.post(
                        PostedMessage(exchange, body, frame, RoutingHeaders(), principal, task)
                    )
                else:
                    await self._not_called(exchange, admitted)
        except DovetailError as error:
            # Only `identity` raises here, before anything is sent.
            await self._refuse_stranger(exchange, error)
        finally:
            if exchange.held:
                self.buffered.release(exchange.held)

    # --- checks of every request ----------------------------------------------------------------------------

    async def _check_uncached(self, exchange: Exchange, key: tuple[Any, ...]) -> bool:
        """Check a request whose headers are not cached, and cache them if they pass.

        Returns True for a POST to the endpoint, whose body is still to be read. Everything else was responded
        to.
        """
        route = self._routes.get(exchange.path) or self._custom_routes.find(exchange.path)
        if route is None and exchange.path == "/" and self._sent_by_browser(exchange):
            route = self._root
        if route is None:
            await exchange.answer(404)
            return False
        if exchange.size() > self._header_bytes:
            await exchange.answer(431, headers=CLOSE)
            return False
        reason = guards.ambiguous(exchange, self.identity.headers)
        if reason is not None:
            await self._refuse(exchange, ProtocolError("invalid_request", reason), 400)
            return False
        failure = None if self.state.started else await self._start()
        if failure is not None:
            await self._refuse(exchange, failure, 500)
            return False
        if route == self._endpoint:
            self._remember(exchange, key)
        return await route(exchange)

    async def _start(self) -> DovetailError | None:
        """Start the service. Returns the error for the client if the lifespan failed, without details."""
        try:
            await self.state.start()
        except Exception:  # noqa: BLE001  it was logged
            return mask("the start of the server")
        return None

    def _remember(self, head: RequestHeaders, key: tuple[Any, ...]) -> None:
        headers = head.headers
        plain = not self.options.cors or "origin" not in headers
        if (
            plain
            and sum(len(value) for value in key if value) <= USUAL_HEAD_BYTES
            and self._guard.refusal(head.local, headers) is None
            and unreadable(headers) is None
            and parse_accept(headers.get("accept")) & self._wanted == self._wanted
        ):
            if len(self._checked_headers) >= CACHED_HEADERS:
                self._checked_headers.clear()  # a client with changing headers must not fill the cache
            self._checked_headers.add(key)

    @property
    def _wanted(self) -> int:
        return JSON if self.options.json_only else JSON | EVENTS

    async def _admitted(
        self, exchange: Exchange, methods: str = guards.METHODS, *, public: bool = False
    ) -> bool:
        """Check the caller. Returns False if the request was refused. Pages of all origins may call what is public."""
        headers = exchange.headers
        check = self._guard.host_refusal if public else self._guard.refusal
        refusal = check(exchange.local, headers)
        if refusal is not None:
            await self._refuse(exchange, ProtocolError("access_denied", refusal), 403)
            return False
        origin = headers.get("origin")
        cors = self.options.cors and not public
        if cors and origin is not None and self._guard.allows_origin(origin):
            exchange.extra = guards.permission(origin)
        if self.state.draining:
            await self._refuse(exchange, ShuttingDown(), 503)
            return False
        if exchange.method == "OPTIONS" and cors:
            await exchange.answer(204, headers=guards.preflight(headers, methods))
            return False
        return True

    async def _enter(self, exchange: Exchange, methods: str, public: bool) -> bool:
        """`_admitted`, for custom routes."""
        return await self._admitted(exchange, methods, public=public)

    # --- the endpoint ---------------------------------------------------------------------------------------

    async def _endpoint(self, exchange: Exchange) -> bool:
        if not await self._admitted(exchange):
            return False
        method = exchange.method
        if method == "POST":
            return await self._readable(exchange, self._wanted)
        legacy = self._is_legacy(exchange)
        if method == "GET" and exchange.headers.get("upgrade", "").lower() == "websocket":
            # Where WebSockets are available this request is a `Socket`.
            await exchange.answer(*guards.NO_WEBSOCKETS)
        elif method in ("GET", "DELETE") and legacy:
            await self._session_request(exchange)
        elif not legacy and self._sent_by_browser(exchange):
            await self._show_page(exchange)
        else:
            # GET and DELETE are session methods. Without a session only POST is allowed.
            allowed = "POST" if method in ("GET", "DELETE") else self._allowed()
            await exchange.answer(405, headers=[("allow", allowed)])
        return False

    def _sent_by_browser(self, exchange: Exchange) -> bool:
        from .browser_page import sent_by_browser  # imported on demand

        return sent_by_browser(exchange.method, exchange.headers)

    async def _root(self, exchange: Exchange) -> bool:
        if await self._admitted(exchange, "GET, HEAD"):
            await self._show_page(exchange)
        return False

    async def _show_page(self, exchange: Exchange) -> None:
        """Show an HTML page that describes the server.

        A protected server's page does not contain its name.
        """
        from .browser_page import HTML_TYPE, PAGE_HEADERS, page

        name = "MCP server" if self.identity.authenticates else self.service.name
        await exchange.answer(200, page(name, exchange, self.options.path), PAGE_HEADERS, HTML_TYPE)

    def _is_legacy(self, head: RequestHeaders) -> bool:
        # Modern clients have no general stream and no sessions: they use neither GET nor DELETE.
        revision = BY_NAME.get(head.headers.get("mcp-protocol-version", ""))
        named = SESSION_HEADER in head.headers or (revision is not None and not revision.modern)
        return named and not self.options.stateless and self.session_handler.served

    def _allowed(self) -> str:
        if self.options.stateless or not self.session_handler.served:
            return "POST"
        return "POST, DELETE" if self.options.json_only else guards.METHODS

    async def _session_request(self, exchange: Exchange) -> None:
        principal = await self.identity.principal_of(exchange)
        if exchange.method == "DELETE":
            await self.session_handler.delete(exchange, principal)
        elif self.options.json_only:
            await exchange.answer(405, headers=[("allow", self._allowed())])
        elif await self._accepts_events(exchange):
            await self.session_handler.get(exchange, principal)

    async def _accepts_events(self, exchange: Exchange) -> bool:
        if parse_accept(exchange.headers.get("accept")) & EVENTS:
            return True
        error = ProtocolError("not_acceptable", "Accept must list text/event-stream")
        await self._refuse(exchange, error, 406)
        return False

    async def _readable(self, exchange: Exchange, wanted: int) -> bool:
        """Check Content-Type and Accept. Returns False if the request was refused."""
        reason = unreadable(exchange.headers)
        if reason is not None:
            error = ProtocolError("unsupported_media_type", reason)
            await self._refuse(exchange, error, 415, guards.AS_IT_IS)
            return False
        found = parse_accept(exchange.headers.get("accept"))
        if found & wanted != wanted and not (
            found and self._admission.is_check_disabled(guards.WORKAROUNDS[found])
        ):
            names = "application/json" if wanted == JSON else "application/json and text/event-stream"
            await self._refuse(exchange, ProtocolError("not_acceptable", f"Accept must list {names}"), 406)
            return False
        return True

    async def _bodiless(self, exchange: Exchange, error: BaseException, task: Work) -> None:
        """Respond to a request without a body, unless its client has disconnected."""
        if isinstance(error, CancelledError):
            late = self._bodies.timed_out(task)
            if late is None:
                raise error
            error = late
        if isinstance(error, RemoteProtocolError | Refusal):
            status = 503 if isinstance(error, Refusal) else http_status(error.kind)
            await self._refuse(exchange, error, status, CLOSE)
        elif isinstance(error, TransportError) and error.cause == "idle":
            await self._refuse(exchange, ProtocolError("peer_too_slow", "the body took too long"), 408, CLOSE)
        else:
            # Some hosts report a malformed body as a disconnect.
            await exchange.answer(400, headers=CLOSE)

    async def _refuse_modern(self, exchange: Exchange, frame: Frame | RemoteProtocolError) -> None:
        if not isinstance(frame, RemoteProtocolError):
            frame = RemoteProtocolError("invalid_request", "clients must not send responses on this revision")
        await self._refuse(exchange, frame, 400)

    async def _not_called(self, exchange: Exchange, admitted: Notice | Rejection | Violation) -> None:
        if isinstance(admitted, Rejection):
            await exchange.answer(admitted.status, admitted.body)
            return
        if isinstance(admitted, Notice):
            self.service.receive_notification(admitted)
        else:
            self._admission.violated(admitted.kind, admitted.detail)
        await exchange.answer(202)

    # --- other paths ----------------------------------------------------------------------------------------

    def _sse_transport(self) -> SseTransport:
        """Return the HTTP+SSE connections, created for the first client."""
        if self.state.sse_transport is None:
            from .sse_transport import SseTransport

            self.state.sse_transport = SseTransport(self._parts, self.session_handler.shared.message_bus)
        return self.state.sse_transport

    async def _sse(self, exchange: Exchange) -> bool:
        if not await self._admitted(exchange):
            return False
        if not self.session_handler.served:
            await exchange.answer(404)
        elif exchange.method != "GET":
            await exchange.answer(405, headers=[("allow", "GET")])
        elif await self._accepts_events(exchange):
            await self._sse_transport().stream(exchange, await self.identity.principal_of(exchange))
        return False

    async def _messages(self, exchange: Exchange) -> bool:
        if not await self._admitted(exchange):
            return False
        if exchange.method != "POST":
            await exchange.answer(405, headers=[("allow", "POST")])
        elif await self._readable(exchange, 0):
            principal = await self.identity.principal_of(exchange)
            body = await self._read(exchange)
            if body is not None:
                await self._sse_transport().post(exchange, body, principal)
        return False

    async def _page(self, exchange: Exchange) -> bool:
        # Other sites link to these pages: each page checks the origin itself.
        refusal = self._guard.refusal(exchange.local, {"host": exchange.headers.get("host", "")})
        if refusal is not None:
            await self._refuse(exchange, ProtocolError("access_denied", refusal), 403)
            return False
        body = await self._read(exchange, PAGE_BYTES) if exchange.method == "POST" else b""
        if body is not None:
            await self.identity.show(exchange, body)
        return False

    async def _read(self, exchange: Exchange, limit: int | None = None) -> bytes | None:
        """Read the body of a message to another path. Returns None if the request was refused."""
        task = current_task()
        assert task is not None
        self._bodies.reading[task] = self._bodies.now
        try:
            body = await exchange.read(limit or self._bodies.limit, self._bodies.buffered)
        except BODILESS as error:
            await self._bodiless(exchange, error, task)
            return None
        finally:
            del self._bodies.reading[task]
        if self.state.draining:
            await self._refuse(exchange, ShuttingDown(), 503)
            return None
        return body

    async def connect(self, socket: Socket) -> None:
        """Serve one WebSocket from its handshake to its end."""

        refusal = self._guard.refusal(socket.local, socket.headers)
        if not self.options.websocket or self._routes.get(socket.path) != self._endpoint:
            await socket.refuse(404, "this path has no WebSocket")
        elif socket.size() > self._header_bytes:
            await socket.refuse(431, "the header block is too large")
        elif (fault := guards.ambiguous(socket, self.identity.headers)) is not None:
            await socket.refuse(400, fault)
        elif refusal is not None:
            await socket.refuse(403, refusal)
        elif (fault := socket.handshake_problem) is not None:
            await socket.refuse(400, fault)
        elif self.state.draining:
            await socket.refuse(503, "the server is shutting down")
        else:
            await self._open_socket(socket)

    async def _open_socket(self, socket: Socket) -> None:
        state = self.state
        try:
            principal = await self.identity.principal_of(socket)
        except DovetailError as error:
            status = status_of_stranger(error)
            await socket.refuse(status, error.message, self.identity.challenge(error, socket, status))
            return
        owners = [stream.principal for stream in state.streams]
        owners += [one.endpoint.principal for one in state.sockets]
        busy = stream_refusal(self.service.limits.max_streams, principal, owners)
        if busy is not None:
            await socket.refuse(503, busy.message)
            return
        failure = None if state.started else await self._start()
        if failure is not None:
            await socket.refuse(500, failure.message)
            return
        await self._serve_socket(socket, principal)

    async def _serve_socket(self, socket: Socket, principal: Principal | None) -> None:
        from ....drivers.duplex import accept  # imported only for WebSockets
        from .websockets import GOING_AWAY, ServerSocketLink, choose, close_socket, serve_websocket

        state = self.state
        task = current_task()
        assert task is not None
        service, scope = self.service, socket.scope
        limits, quiet = service.limits.on_websocket(), self.options.session_ping_interval
        duplex = accept(service, principal=principal, scope=scope, limits=limits, untrusted=True, quiet=quiet)
        state.sockets[duplex] = task
        try:
            # Some ASGI servers do not report a client that disconnects during the handshake.
            async with timeout(self.options.header_timeout):
                await socket.accept(choose(socket.offered))
            if state.draining:  # shutdown may have started during the handshake
                await close_socket(socket, GOING_AWAY)
            else:
                most, patience = self.service.limits.max_write_buffer_bytes, self.options.write_timeout
                link = ServerSocketLink(socket, most, patience)
                drain = self.options.shutdown_grace_period
                with until_expiry(principal, self.service.clock(), lambda: duplex.close(drain=drain)):
                    await serve_websocket(socket, duplex, link)
        except (TimeoutError, TransportError):
            duplex.lost(None)
        finally:
            del state.sockets[duplex]

    async def _refuse_stranger(self, exchange: Exchange, error: DovetailError) -> None:
        status = status_of_stranger(error)
        await self._refuse(exchange, error, status, self.identity.challenge(error, exchange, status))

    async def _refuse(
        self, exchange: Exchange, error: DovetailError, status: int, headers: Headers = ()
    ) -> None:
        await refuse(exchange, self._admission, error, status=status, headers=headers)
