"""How a server gets onto a wire. Transports are imported when asked for: a pipe costs no HTTP stack."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from ..errors import DovetailError
from ..wire.dialects import ERLMCP

if TYPE_CHECKING:
    from .server import Server

TRANSPORTS: Final[Mapping[str, str]] = {
    "stdio": "dovetail.transports.stdio",
    "tcp": "dovetail.transports.tcp",
    "http": "dovetail.transports.http.host.serving",
    "ws": "dovetail.transports.http.host.serving",
    "sse": "dovetail.transports.http.host.serving",
}
"""The module whose ``serve`` and ``run`` speak each transport. One HTTP application has all three faces."""
_FACES: Final = {"ws": "http", "sse": "http"}
"""Transports that are faces of one HTTP application, whose limits hold side by side."""


async def serve(server: Server, transport: str, options: Mapping[str, Any]) -> None:
    """Serve on ``transport`` until it ends."""
    module = _module(transport)
    await module.serve(server, **_sized(server, transport, options))


def run(server: Server, transport: str, options: Mapping[str, Any]) -> None:
    """Serve until a signal or the end of the peer; the transport knows how. A failure is the exit status.

    Raises:
        SystemExit: with the status, when it is not 0: 130 after a Ctrl-C.
    """
    module = _module(transport)
    status = module.run(server, **_sized(server, transport, options))
    if status:
        raise SystemExit(status)


def asgi(server: Server, options: Mapping[str, Any]) -> Any:
    """The ASGI application of ``server``."""
    module = importlib.import_module("dovetail.transports.http.server.asgi")
    return module.face(server, **_sized(server, "http", options))


def rsgi(server: Server, options: Mapping[str, Any]) -> Any:
    """The RSGI application of ``server``."""
    module = importlib.import_module("dovetail.transports.http.server.rsgi")
    return module.face(server, **_sized(server, "http", options))


def _sized(server: Server, transport: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options without erlmcp's names for limits; those that concern this transport are set."""
    others = {name: value for name, value in options.items() if name not in ERLMCP.config_keys}
    for name in options.keys() - others.keys():
        where, members = ERLMCP.config_keys[name]
        if where == _FACES.get(transport, transport):
            server.limits = replace(server.limits, **dict.fromkeys(members, options[name]))
    return others


def _module(transport: str) -> Any:
    name = TRANSPORTS.get(transport)
    if name is None:
        raise DovetailError(f"there is no transport {transport!r}: use one of {', '.join(TRANSPORTS)}")
    return importlib.import_module(name)
