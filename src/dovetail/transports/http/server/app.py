"""A server as an ASGI application: every revision on one URL.

The order of questions for a POST: may this caller call at all (`guards`), is the body small enough, is it a
message, which era does it belong to. The body decides the era first, the version header second; then
`modern` or `legacy` answers. The HTTP+SSE pair of 2024-11-05 and the WebSocket live beside the endpoint.

Works below any prefix, with the host's lifespan or without: the server is started by whichever comes first,
the lifespan or a request.
"""

from __future__ import annotations

import logging
from asyncio import CancelledError, Task, current_task
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from msgspec import UNSET

from ....core import metadata
from ....core.channel import Call, Notice, Rejection, Violation
from ....drivers.run import mask
from ....errors import DovetailError, ProtocolError, RemoteProtocolError, TransportError, http_status
from ....settings import HttpOptions
from ....wire import headers as routing
from ....wire.frames import Frame, decode
from ....wire.revisions import BY_NAME
from . import cors
from .asgi import CLOSE, TEXT_TYPE, Headers, Message, Receive, Scope, Send, answer, refuse
from .bodies import Bodies
from .ended_sessions import Board
from .event_streams import crowded
from .guards import EVENTS, JSON, Guard, doubled, is_json, parse_accept
from .legacy import SESSION_HEADER, Legacy
from .life import Life
from .modern import Modern
from .pair import Pair
from .service import HttpService
from .session_calls import shutting_down
from .websockets import refuse_websocket, serve_websocket

log = logging.getLogger("dovetail.http")

_REMEMBERED: Final = 256
"""Combinations of headers remembered as good, so that the usual request costs one look-up."""

Checked = dict[bytes, bytes]
Route = Callable[[Scope, Receive, Send, Checked], Awaitable[None]]


def app(server: HttpService, options: HttpOptions | None = None, **changes: Any) -> HttpApp:
    """The ASGI application of ``server``; ``changes`` are members of `HttpOptions`."""
    options = HttpOptions() if options is None else options
    return HttpApp(server, msgspec.structs.replace(options, **changes))


class HttpApp:
    """One server, ready for any ASGI host."""

    def __init__(self, service: HttpService, options: HttpOptions, board: Board | None = None) -> None:
        self.service = service
        self.options = options
        self._admission = service.admission
        self._header_bytes = service.limits.header_bytes
        self._guard = Guard(options)
        self._usual: set[Any] = set()
        self._bodies = Bodies(service.limits.message_size, options.body_timeout)
        self.life = life = Life(service, options, self._bodies)
        self.legacy = life.legacy = Legacy(service, options, life.streams, life.in_sessions, board)
        self.modern = life.modern = Modern(service, options, life.streams)
        self.pair = life.pair = Pair(service, options, life.streams)
        self._routes: dict[str, Route] = {
            options.path: self._endpoint,
            options.path.rstrip("/") + "/": self._endpoint,
            "/livez": self._alive,
            "/readyz": self._ready,
        }
        if options.sse_path is not None:
            self._routes[options.sse_path] = self._sse
            self._routes[options.messages_path] = self._messages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw = scope["headers"]
            headers: Checked = dict(raw)
            get = headers.get
            root: str = scope.get("root_path") or ""
            key = (
                scope["path"],
                root,
                get(b"host"),
                get(b"origin"),
                get(b"content-type"),
                get(b"accept"),
                scope.get("server"),
            )
            try:
                if (
                    key in self._usual
                    and scope["method"] == "POST"
                    and len(headers) == len(raw)
                    and len(b"".join(map(b"".join, raw))) <= self._header_bytes
                    and not self.life.draining
                ):
                    await self._post(scope, receive, send, headers)
                else:
                    await self._unusual(scope, receive, send, headers, key)
            except DovetailError as error:
                # Only ``principal`` raises here, and it is asked before anything is sent.
                await self._refuse(send, error, _status_of_stranger(error))
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self.life.lifespan(receive, send)

    async def drain(self, seconds: float) -> None:
        """End everything in order; calls under way get ``seconds``."""
        await self.life.drain(seconds)

    # --- what every request passes --------------------------------------------------------------------------

    async def _unusual(
        self, scope: Scope, receive: Receive, send: Send, headers: Checked, key: tuple[Any, ...]
    ) -> None:
        """Check a request whose head has not been seen before, and remember it if it is good."""
        route = self._routes.get(_below(scope))
        if route is None:
            await answer(send, 404)
            return
        raw = scope["headers"]
        if len(b"".join(map(b"".join, raw))) > self._header_bytes:
            await answer(send, 431, headers=CLOSE)
            return
        twice = doubled(raw)
        if twice is not None:
            await self._refuse(send, ProtocolError("invalid_request", f"the header {twice} came twice"), 400)
            return
        failure = None if self.life.started else await self._start()
        if failure is not None:
            await self._refuse(send, failure, 500)
            return
        if route == self._endpoint:
            self._remember(scope, headers, key)
        await route(scope, receive, send, headers)

    async def _start(self) -> DovetailError | None:
        """Start the server; what to tell the client when the author's lifespan failed, and nothing more."""
        try:
            await self.life.start()
        except Exception:  # noqa: BLE001  whatever it was, it is in the log
            return mask("the start of the server")
        return None

    def _remember(self, scope: Scope, headers: Checked, key: tuple[Any, ...]) -> None:
        plain = not self.options.cors or b"origin" not in headers
        if (
            plain
            and len(self._usual) < _REMEMBERED
            and self._guard.refusal(scope, headers) is None
            and is_json(headers.get(b"content-type"))
            and parse_accept(headers.get(b"accept")) & self._wanted == self._wanted
        ):
            self._usual.add(key)

    @property
    def _wanted(self) -> int:
        return JSON if self.options.json_only else JSON | EVENTS

    async def _entered(self, scope: Scope, send: Send, headers: Checked) -> Send | None:
        """What to answer with; None when the caller has been refused already."""
        refusal = self._guard.refusal(scope, headers)
        if refusal is not None:
            await self._refuse(send, ProtocolError("access_denied", refusal), 403)
            return None
        origin = headers.get(b"origin")
        if self.options.cors and origin is not None and self._guard.allows_origin(origin):
            send = cors.with_cors(send, origin)
        if self.life.draining:
            await self._refuse(send, shutting_down(), 503)
            return None
        if scope["method"] == "OPTIONS" and self.options.cors:
            await answer(send, 204, headers=cors.preflight(headers))
            return None
        return send

    # --- the endpoint ---------------------------------------------------------------------------------------

    async def _endpoint(self, scope: Scope, receive: Receive, send: Send, headers: Checked) -> None:
        entered = await self._entered(scope, send, headers)
        if entered is None:
            return
        method: str = scope["method"]
        if method == "POST":
            if await self._acceptable(entered, headers):
                await self._post(scope, receive, entered, headers)
        elif method in ("GET", "DELETE") and self._is_legacy(headers):
            await self._session_request(method, scope, receive, entered, headers)
        else:
            await answer(entered, 405, headers=[(b"allow", self._allowed())])

    def _is_legacy(self, headers: Checked) -> bool:
        # Modern clients have neither streams nor sessions: GET and DELETE do not exist for them.
        named = BY_NAME.get(headers.get(b"mcp-protocol-version", b"").decode("latin-1"))
        if (named is None or named.modern) and SESSION_HEADER not in headers:
            return False
        return not self.options.stateless and self.legacy.served

    def _allowed(self) -> bytes:
        if self.options.stateless or not self.legacy.served:
            return b"POST"
        return b"POST, DELETE" if self.options.shared or self.options.json_only else cors.METHODS

    async def _session_request(
        self, method: str, scope: Scope, receive: Receive, send: Send, headers: Checked
    ) -> None:
        principal = self._principal(scope)
        if method == "DELETE":
            await self.legacy.delete(send, headers, principal)
        elif self.options.shared or self.options.json_only:
            # A stream would hear only what happens in this one process.
            await answer(send, 405, headers=[(b"allow", self._allowed())])
        elif not parse_accept(headers.get(b"accept")) & EVENTS:
            error = ProtocolError("not_acceptable", "Accept must list text/event-stream")
            await self._refuse(send, error, 406)
        else:
            await self.legacy.get(receive, send, headers, principal)

    async def _acceptable(self, send: Send, headers: Checked) -> bool:
        """Whether we can read what comes and the client can read what we answer; if not it has been told."""
        if not is_json(headers.get(b"content-type")):
            error = ProtocolError("unsupported_media_type", "Content-Type must be application/json")
            await self._refuse(send, error, 415)
            return False
        if parse_accept(headers.get(b"accept")) & self._wanted != self._wanted:
            names = "application/json" if self._wanted == JSON else "application/json and text/event-stream"
            await self._refuse(send, ProtocolError("not_acceptable", f"Accept must list {names}"), 406)
            return False
        return True

    async def _post(self, scope: Scope, receive: Receive, send: Send, headers: Checked) -> None:
        # The path of nearly every request: what could be a call of its own is written out here.
        task = current_task(self.life.loop) or current_task()
        assert task is not None
        get = headers.get
        bodies = self._bodies
        bodies.reading[task] = bodies.now
        try:
            message = await receive()
            body: bytes = message.get("body", b"")
            if message.get("more_body") or message["type"] != "http.request" or len(body) > bodies.limit:
                body = await bodies.go_on(receive, message, get(b"content-length"))
        except (CancelledError, TransportError, RemoteProtocolError) as error:
            await self._bodiless(send, error, task)
            return
        finally:
            del bodies.reading[task]
        if self.life.draining:  # it was not when the head came
            await self._refuse(send, shutting_down(), 503)
            return
        try:
            frame: Frame | RemoteProtocolError = decode(body)
        except RemoteProtocolError as error:
            frame = error
        raw = scope["headers"]
        version, method, name = get(b"mcp-protocol-version"), get(b"mcp-method"), get(b"mcp-name")
        if len(raw) == len(headers) and b"mcp-param-" not in b"".join(headers):
            # What `routing.read` would find, without looking at each header.
            mirrored = routing.RoutingHeaders(
                None if version is None else version.decode("latin-1").strip(" \t"),
                None if method is None else method.decode("latin-1").strip(" \t"),
                None if name is None else name.decode("latin-1").strip(" \t"),
            )
        else:
            mirrored = routing.read(raw)
        principal = None if self.options.principal is None else self._principal(scope)
        params = frame.params if type(frame) is Frame else UNSET
        if mirrored.version in self._admission.modern or metadata.is_modern(params, mirrored.version):
            if type(frame) is not Frame or frame.method is UNSET:
                await self._refuse_modern(send, frame)
                return
            scope["transport"] = "http"
            admitted = self._admission.admit(frame, None, headers=mirrored, principal=principal, scope=scope)
            if isinstance(admitted, Call):
                await self.modern.serve(admitted, receive, send, task)
            else:
                await self._not_called(send, admitted)
        elif mirrored.duplicated:
            name = min(mirrored.duplicated)
            error = ProtocolError("header_mismatch", f"the header {name} came twice", data={"header": name})
            await self._refuse(send, error, 400)
        else:
            scope["transport"] = "http"
            await self.legacy.post(scope, send, headers, mirrored, principal, body, frame)

    async def _bodiless(
        self, send: Send, error: CancelledError | TransportError | RemoteProtocolError, task: Task[Any]
    ) -> None:
        """There is no body to be had; tell the client if it is still there."""
        if isinstance(error, CancelledError):
            try:
                self._bodies.given_up(task)
            except TransportError as late:
                error = late
            else:
                raise error
        if isinstance(error, RemoteProtocolError):
            await self._refuse(send, error, 413, CLOSE)
        elif error.cause == "idle":
            await answer(send, 408, headers=CLOSE)

    async def _refuse_modern(self, send: Send, frame: Frame | RemoteProtocolError) -> None:
        if not isinstance(frame, RemoteProtocolError):
            frame = RemoteProtocolError("invalid_request", "clients send no responses")
        await self._refuse(send, frame, 400)

    async def _not_called(self, send: Send, admitted: Notice | Rejection | Violation) -> None:
        if isinstance(admitted, Rejection):
            await answer(send, admitted.status, admitted.body)
            return
        if isinstance(admitted, Notice):
            self.service.take_note(admitted)
        await answer(send, 202)

    # --- beside the endpoint --------------------------------------------------------------------------------

    async def _sse(self, scope: Scope, receive: Receive, send: Send, headers: Checked) -> None:
        entered = await self._entered(scope, send, headers)
        if entered is None:
            return
        if scope["method"] != "GET" or not self.legacy.served:
            await answer(entered, 405, headers=[(b"allow", b"GET")])
        elif not parse_accept(headers.get(b"accept")) & EVENTS:
            error = ProtocolError("not_acceptable", "Accept must list text/event-stream")
            await self._refuse(entered, error, 406)
        else:
            await self.pair.stream(scope, receive, entered, self._principal(scope))

    async def _messages(self, scope: Scope, receive: Receive, send: Send, headers: Checked) -> None:
        entered = await self._entered(scope, send, headers)
        if entered is None:
            return
        if scope["method"] != "POST":
            await answer(entered, 405, headers=[(b"allow", b"POST")])
            return
        if not is_json(headers.get(b"content-type")):
            error = ProtocolError("unsupported_media_type", "Content-Type must be application/json")
            await self._refuse(entered, error, 415)
            return
        task = current_task()
        assert task is not None
        try:
            body = await self._bodies.read(receive, headers.get(b"content-length"), task)
        except (TransportError, RemoteProtocolError) as error:
            await self._bodiless(entered, error, task)
            return
        if self.life.draining:
            await self._refuse(entered, shutting_down(), 503)
            return
        await self.pair.post(scope, entered, body, self._principal(scope))

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        refusal = self._guard.refusal(scope, headers)
        if not self.options.websocket or self._routes.get(_below(scope)) != self._endpoint:
            await refuse_websocket(scope, receive, send, 404, "there is no WebSocket here")
        elif refusal is not None:
            await refuse_websocket(scope, receive, send, 403, refusal)
        elif self.life.draining:
            await refuse_websocket(scope, receive, send, 503, "the server is shutting down")
        else:
            await self._open_socket(scope, receive, send)

    async def _open_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        life = self.life
        try:
            principal = self._principal(scope)
        except DovetailError as error:
            await refuse_websocket(scope, receive, send, _status_of_stranger(error), error.message)
            return
        owners = [stream.principal for stream in life.streams]
        owners += [socket.endpoint.principal for socket in life.sockets]
        busy = crowded(self.service.limits.streams, principal, owners)
        if busy is not None:
            await refuse_websocket(scope, receive, send, 503, busy.message)
            return
        failure = None if life.started else await self._start()
        if failure is not None:
            await refuse_websocket(scope, receive, send, 500, failure.message)
            return
        await serve_websocket(self.service, scope, receive, send, principal, life.sockets)

    async def _alive(self, scope: Scope, receive: Receive, send: Send, headers: Checked) -> None:
        await answer(send, 200, b"alive\n", kind=TEXT_TYPE)

    async def _ready(self, scope: Scope, receive: Receive, send: Send, headers: Checked) -> None:
        if self.life.draining:
            await answer(send, 503, b"draining\n", [(b"retry-after", b"1")], TEXT_TYPE)
        else:
            await answer(send, 200, b"ready\n", kind=TEXT_TYPE)

    def _principal(self, scope: Scope) -> str | None:
        """Who is calling.

        Raises:
            DovetailError: nobody we serve, or it could not be found out; nothing internal is in it.
        """
        if self.options.principal is None:
            return None
        try:
            return self.options.principal(scope)
        except DovetailError:
            raise
        except Exception:  # noqa: BLE001  the author's function failed; the client learns only that
            raise mask("the principal of a request") from None

    async def _refuse(
        self, send: Send, error: DovetailError, status: int, headers: Headers | None = None
    ) -> None:
        id = getattr(error, "id", None)
        await refuse(send, self._admission, error, id=id, status=status, headers=headers or [])


def _status_of_stranger(error: DovetailError) -> int:
    """The status for a caller whose principal cannot be told; never 200, which is for those let in."""
    if error.kind == "internal_error":
        return 500
    status = http_status(error.kind)
    return 403 if status == 200 else status


def _below(scope: Message) -> str:
    """The path below the prefix this app is mounted at. Hosts differ in whether ``path`` includes it."""
    path: str = scope["path"]
    root: str = (scope.get("root_path") or "").rstrip("/")
    if root and path.startswith(root) and path[len(root) : len(root) + 1] in ("", "/"):
        return path[len(root) :] or "/"
    return path
