"""Serve an HTTP handler inside this process: the page of the inspector, and the server of ``dovetail dev``."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from .. import extras
from ..settings import HttpOptions, Limits

if TYPE_CHECKING:
    from ..transports.bind_address import BindAddress
    from ..transports.http.server.builtin_server import HttpHandler


@asynccontextmanager
async def served(
    handler: HttpHandler, address: BindAddress, *, max_header_bytes: int = Limits().max_header_bytes
) -> AsyncGenerator[tuple[str, int]]:
    """Serve ``handler`` inside the context and give the host and the port. Signal handlers stay unchanged.

    Raises:
        DovetailError: the address is in use, or the HTTP parser is not installed.
    """
    if not extras.installed("httptools"):
        raise extras.missing("httptools", "a page")
    from ..transports.http.listener import HttpListener

    bound = address.listen()
    host, port = bound.getsockname()[:2]
    listener = HttpListener(handler, bound, options=HttpOptions(), max_header_bytes=max_header_bytes)
    try:
        await listener.start()
        yield host, port
        await listener.close()
    finally:
        bound.close()
