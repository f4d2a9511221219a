"""One ASGI application of ours behind the HTTP parts of SDK 1.x, wherever they are mounted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from ....server import Server
from ... import serving
from .transport_security import TransportSecuritySettings, http_options, is_open

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_GUARDED: Final = {b"origin", b"sec-fetch-site"}


class Face:
    """``server`` over HTTP; ``options`` are members of `HttpOptions`."""

    def __init__(self, server: Server, security: TransportSecuritySettings | None, **options: Any) -> None:
        self.application: Any = server.asgi(**http_options(security), **options)
        self._open = is_open(security) and not serving.strict()

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send, *, path: str, root: str = ""
    ) -> None:
        """Answer at ``path``, whatever the address is that the request came to."""
        scope = {**scope, "path": root + path, "raw_path": (root + path).encode(), "root_path": root}
        if self._open:
            headers = [(name, value) for name, value in scope["headers"] if name not in _GUARDED]
            scope["headers"] = [(name, b"localhost" if name == b"host" else value) for name, value in headers]
        await self.application(scope, receive, send)

    async def start(self) -> None:
        await self.application.app.life.start()

    async def stop(self) -> None:
        await self.application.app.life.stop()
