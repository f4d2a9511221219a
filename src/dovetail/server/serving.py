"""Serving: over a transport, as an ASGI application, or one message at a time.

A transport is imported when it is first used, so a stdio server does not load the HTTP stack.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast

from msgspec.structs import replace

from ..core.channel import EMPTY, Session
from ..core.principal import as_principal
from ..drivers.exchange import NULL_WRITER, NullWriter, exchange
from ..errors import DovetailError, StateError
from ..model import ClientCapabilities

if TYPE_CHECKING:
    from ..core.route_handlers import CustomRoute, RouteTable
    from .composition import Composition
    from .server import Server

F = TypeVar("F", bound=Callable[..., Any])

_HTTP: Final = "dovetail.transports.http.http_serving"
TRANSPORTS: Final[Mapping[str, str]] = {
    "stdio": "dovetail.transports.stdio",
    "tcp": "dovetail.transports.tcp",
    "http": _HTTP,
    "ws": _HTTP,
    "sse": _HTTP,
}
"""The module whose ``serve`` and ``run`` serve each transport. One HTTP application serves the last three."""
Transport = Literal["stdio", "http", "tcp", "ws", "sse"]

CONFIRMATION_PATH: Final = "/confirm/"
"""The prefix of the pages on which users confirm an operation; the rest of the path is the token of one link."""


class Serving:
    """The methods of a `Server` that serve it."""

    routes: RouteTable | None = None
    """Custom HTTP routes; None until the first one is added."""
    composition: Composition | None
    event_history: Any = None
    """Where the events of legacy HTTP sessions are stored, in place of the store (`EventHistory`)."""

    def route(self, path: str, *, methods: Collection[str] = ("GET",), auth: bool = True) -> Callable[[F], F]:
        """Answer HTTP requests to ``path`` with a function: ``@server.route("/items/{id}", methods=["GET"])``.

        It takes a `dovetail.RouteRequest` and returns text, bytes, a value for JSON, None (204) or a
        `RouteResponse`. Plain
        functions run in a worker thread. Host and Origin are checked as for the endpoint. Where the server verifies
        tokens the caller needs one, unless ``auth=False`` opens the route to all callers.

        Raises:
            RegistrationError: the path or a method is not valid, or the path is taken.
        """
        from ..core.route_handlers import CustomRoute, RouteTable  # most servers have none

        if self.routes is None:
            self.routes = RouteTable()
        routes = self.routes

        def add(handler: F) -> F:
            routes.add(CustomRoute(path, handler, frozenset(name.upper() for name in methods), auth))
            return handler

        return add

    def find_routes(self, path: str) -> list[tuple[CustomRoute, dict[str, str]]]:
        """All custom routes that match ``path``; those of mounted servers come last."""
        found = [] if self.routes is None else self.routes.find(path)
        if path.startswith(CONFIRMATION_PATH):
            from . import confirmation  # most servers do not confirm anything

            found = [*found, confirmation.route(lambda: cast("Server", self).state_store, path)]
        return found if self.composition is None else found + self.composition.find_routes(path)

    async def handle(self, message: bytes | str, scope: Mapping[str, Any] | None = None) -> bytes | None:
        """Answer one message or batch: bytes (or text) in, bytes out, None when there is no answer. Never raises for
        its content.

        ``scope`` has what the caller knows: ``session`` (a legacy `Session` to serve in), ``revision`` (serve without
        a session, as if that revision had been negotiated), ``principal``, and ``notify``, a function that gets the
        notifications sent before the reply. The handler sees all of it as ``ctx.scope``. Without session and
        revision, a legacy request is refused with the advice to initialize.
        """
        server, known = cast("Server", self), EMPTY if scope is None else scope
        take = known.get("notify")
        _, reply = await exchange(
            server,
            message,
            session=_session(server, known) if known else None,
            principal=as_principal(known.get("principal")),
            scope=known,
            writer=NULL_WRITER if take is None else _Listener(take),
        )
        return reply

    async def serve(self, transport: Transport = "stdio", **options: Any) -> None:
        """Serve until cancelled or stopped; the options are those of the transport."""
        await _module(transport).serve(self, **self._sized(transport, options))

    def run(self, transport: Transport = "stdio", **options: Any) -> None:
        """`serve` in a new event loop: ``server.run()``, ``server.run("http", port=8000, workers=2)``.

        Raises:
            SystemExit: the exit status is not 0, such as 130 after Ctrl-C.
            StateError: called inside a running event loop.
        """
        if _in_event_loop():
            raise StateError("server.run() cannot be used inside an event loop: await server.serve() instead")
        status = _module(transport).run(self, **self._sized(transport, options))
        if status:
            raise SystemExit(status)

    def asgi(self, **options: Any) -> Any:
        """This server as an ASGI application, for any ASGI server."""
        module = importlib.import_module("dovetail.transports.http.server.asgi")
        return module.asgi_app(self, **self._sized("http", options))

    def _sized(self, transport: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options without erlmcp's names of limits; limits of this transport are set on the server."""
        server = cast("Server", self)
        others = dict(options)
        for name in [name for name in options if name.endswith("_size_limit")]:
            from ..wire.dialects.erlmcp import ERLMCP  # a server that needs no dialect does without it

            if name in ERLMCP.config_keys:
                where, members = ERLMCP.config_keys[name]
                value = others.pop(name)
                if TRANSPORTS[where] == TRANSPORTS[transport]:
                    server.limits = replace(server.limits, **dict.fromkeys(members, value))
        if transport in ("ws", "sse"):
            others.setdefault("announce", transport)
        return others


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _module(transport: str) -> Any:
    name = TRANSPORTS.get(transport)
    if name is None:
        raise DovetailError(f"there is no transport {transport!r}: use one of {', '.join(TRANSPORTS)}")
    return importlib.import_module(name)


class _Listener(NullWriter):
    """Gives the notifications that come before the reply to a callable."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take

    def notify(self, message: bytes) -> None:
        self._take(message)


def _session(server: Server, scope: Mapping[str, Any]) -> Session | None:
    session = scope.get("session")
    if session is not None:
        return session
    codec = server.admission.codecs.get(scope.get("revision", ""))
    if codec is None or codec.revision.modern:
        return None
    declared = ClientCapabilities(scope.get("capabilities") or {})
    return Session(revision=codec.revision, codec=codec, capabilities=declared, phase="ready")
