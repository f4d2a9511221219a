"""Serving: over a transport, as an ASGI application, or one message at a time.

A transport is imported when it is first used, so a stdio server does not load the HTTP modules.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec.structs import asdict

from ..core.channel import EMPTY, Session
from ..core.principal import as_principal
from ..drivers.exchange import NULL_WRITER, NullWriter, exchange
from ..errors import DovetailError, StateError
from ..model import ClientCapabilities
from ..settings import HttpOptions

if TYPE_CHECKING:
    from .dispatcher import Dispatcher

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


async def handle(
    dispatcher: Dispatcher, message: bytes | str, scope: Mapping[str, Any] | None
) -> bytes | None:
    """`Server.handle`."""
    known = EMPTY if scope is None else scope
    take = known.get("notify")
    _, reply = await exchange(
        dispatcher,
        message,
        session=_session(dispatcher, known) if known else None,
        principal=as_principal(known.get("principal")),
        scope=known,
        writer=NULL_WRITER if take is None else _Listener(take),
    )
    return reply


async def serve(dispatcher: Dispatcher, transport: Transport, options: Mapping[str, Any]) -> None:
    """`Server.serve`."""
    await _module(transport).serve(dispatcher, **transport_options(dispatcher, transport, options))


def run(dispatcher: Dispatcher, transport: Transport, options: Mapping[str, Any]) -> None:
    """`Server.run`."""
    if _in_event_loop():
        raise StateError("server.run() cannot be used inside an event loop: await server.serve() instead")
    status = _module(transport).run(dispatcher, **transport_options(dispatcher, transport, options))
    if status:
        raise SystemExit(status)


def asgi(dispatcher: Dispatcher, options: Mapping[str, Any]) -> Any:
    """`Server.asgi`."""
    module = importlib.import_module("dovetail.transports.http.server.asgi")
    return module.asgi_app(dispatcher, **transport_options(dispatcher, "http", options))


def transport_options(dispatcher: Dispatcher, transport: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a transport: those given, and over HTTP those of ``Server(http=…)``.

    Limits by erlmcp's names are set on the server.
    """
    others = dict(options)
    for name in [name for name in options if name.endswith("_size_limit")]:
        from ..wire.dialects.erlmcp import ERLMCP  # loaded with the first server that has this dialect

        if name in ERLMCP.config_keys:
            where, members = ERLMCP.config_keys[name]
            value = others.pop(name)
            if TRANSPORTS[where] == TRANSPORTS[transport]:
                dispatcher.change_limits(**dict.fromkeys(members, value))
    if transport in ("ws", "sse"):
        others.setdefault("announce", transport)
    if TRANSPORTS.get(transport) == _HTTP:
        defaults = asdict(HttpOptions())
        chosen = {
            name: value for name, value in asdict(dispatcher.settings.http).items() if value != defaults[name]
        }
        return {**chosen, **others}
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
    """Passes the notifications sent before the reply to a callable."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take

    def notify(self, message: bytes) -> None:
        self._take(message)


def _session(dispatcher: Dispatcher, scope: Mapping[str, Any]) -> Session | None:
    session = scope.get("session")
    if session is not None:
        return session
    codec = dispatcher.admission.codecs.get(scope.get("revision", ""))
    if codec is None or codec.revision.modern:
        return None
    declared = ClientCapabilities(scope.get("capabilities") or {})
    return Session(revision=codec.revision, codec=codec, capabilities=declared, phase="ready")
