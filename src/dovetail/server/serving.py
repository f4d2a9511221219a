"""How a server gets onto a wire, or answers whoever brings bytes of their own.

Transports are imported when asked for: a pipe costs no HTTP stack.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast

from msgspec.structs import replace

from ..core.channel import EMPTY, Session
from ..core.principal import as_principal
from ..drivers.exchange import NOBODY, Nobody, exchange
from ..errors import DovetailError
from ..model import ClientCapabilities
from ..wire.dialects import ERLMCP

if TYPE_CHECKING:
    from ..core.routes import Route, Routes
    from .elsewhere import Elsewhere
    from .server import Server

F = TypeVar("F", bound=Callable[..., Any])

_HTTP: Final = "dovetail.transports.http.serving"
TRANSPORTS: Final[Mapping[str, str]] = {
    "stdio": "dovetail.transports.stdio",
    "tcp": "dovetail.transports.tcp",
    "http": _HTTP,
    "ws": _HTTP,
    "sse": _HTTP,
}
"""The module whose ``serve`` and ``run`` serve each transport. One HTTP application serves the last three."""
Transport = Literal["stdio", "http", "tcp", "ws", "sse"]


class Serving:
    """The part of a `Server` that is spoken to."""

    routes: Routes | None = None
    """The author's own, beside the endpoint; made with the first one."""
    elsewhere: Elsewhere | None
    forwards: bool = False
    """Whether it answers by asking other servers."""
    event_history: Any = None
    """An author's own place for the events of legacy HTTP sessions (`EventHistory` of the transport)."""

    def route(self, path: str, *, methods: Collection[str] = ("GET",), auth: bool = True) -> Callable[[F], F]:
        """Answer HTTP requests to ``path`` with a function: ``@server.route("/items/{id}", methods=["GET"])``.

        It takes a `dovetail.Request` and returns text, bytes, something for JSON, None (204) or a
        `Response`; plain functions run in a worker thread. Host and Origin are checked as for the endpoint. Where the
        server verifies tokens the caller needs one, unless ``auth=False`` opens the route to everybody.

        Raises:
            RegistrationError: the path is none or taken, or a method is none.
        """
        from ..core.routes import Route, Routes  # most servers have none

        if self.routes is None:
            self.routes = Routes()
        routes = self.routes

        def add(handler: F) -> F:
            routes.add(Route(path, handler, frozenset(name.upper() for name in methods), auth))
            return handler

        return add

    def find_routes(self, path: str) -> list[tuple[Route, dict[str, str]]]:
        """All own routes that answer ``path``, those of what is mounted here last."""
        found = [] if self.routes is None else self.routes.find(path)
        return found if self.elsewhere is None else found + self.elsewhere.find_routes(path)

    async def handle(self, message: bytes | str, scope: Mapping[str, Any] | None = None) -> bytes | None:
        """Answer one message or batch: bytes (or text) in, bytes out, None when there is nothing to say. Never
        raises for its content.

        ``scope`` says what the surroundings know: ``session`` (a legacy `Session` to serve in), ``revision``
        (serve without a session, as if that revision had been negotiated), ``principal``, and ``notify``, a
        callable that takes the notifications that come before the reply. The handler sees all of it as
        ``ctx.scope``. Without session and revision, a legacy request is told to initialize.
        """
        server, known = cast("Server", self), EMPTY if scope is None else scope
        take = known.get("notify")
        _, reply = await exchange(
            server,
            message,
            session=_session(server, known) if known else None,
            principal=as_principal(known.get("principal")),
            scope=known,
            writer=NOBODY if take is None else _Listener(take),
        )
        return reply

    async def serve(self, transport: Transport = "stdio", **options: Any) -> None:
        """Serve until told to stop; the options are the transport's."""
        await _module(transport).serve(self, **self._sized(transport, options))

    def run(self, transport: Transport = "stdio", **options: Any) -> None:
        """`serve` in an event loop of its own: ``server.run()``, ``server.run("http", port=8000)``.

        Raises:
            SystemExit: with the status, when it is not 0: 130 after a Ctrl-C.
        """
        status = _module(transport).run(self, **self._sized(transport, options))
        if status:
            raise SystemExit(status)

    def asgi(self, **options: Any) -> Any:
        """This server as an ASGI application, for any ASGI host."""
        module = importlib.import_module("dovetail.transports.http.server.asgi")
        return module.face(self, **self._sized("http", options))

    def rsgi(self, **options: Any) -> Any:
        """This server as an RSGI application, for granian: ``granian --interface rsgi module:app``."""
        module = importlib.import_module("dovetail.transports.http.server.rsgi")
        return module.face(self, **self._sized("http", options))

    def _sized(self, transport: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options without erlmcp's names for limits; those that concern this transport are set."""
        server = cast("Server", self)
        others = {name: value for name, value in options.items() if name not in ERLMCP.config_keys}
        for name in options.keys() - others.keys():
            where, members = ERLMCP.config_keys[name]
            if TRANSPORTS[where] == TRANSPORTS[transport]:
                server.limits = replace(server.limits, **dict.fromkeys(members, options[name]))
        if transport in ("ws", "sse"):
            others.setdefault("announce", transport)
        return others


def _module(transport: str) -> Any:
    name = TRANSPORTS.get(transport)
    if name is None:
        raise DovetailError(f"there is no transport {transport!r}: use one of {', '.join(TRANSPORTS)}")
    return importlib.import_module(name)


class _Listener(Nobody):
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
