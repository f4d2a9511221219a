"""``streamablehttp_client()``: a server at a URL."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from .ways import Way

GetSessionIdCallback = Callable[[], str | None]


def _no_id() -> str | None:
    """Sessions are ours: whoever needs their id has to ask the server's operator."""
    return None


@asynccontextmanager
async def streamable_http_client(
    url: str, *, http_client: Any = None, terminate_on_close: bool = True
) -> AsyncGenerator[tuple[Way, Way, GetSessionIdCallback], None]:
    """The way to ``url``; ``http_client`` makes the requests, where one is given."""
    way = Way(url, {} if http_client is None else {"http": http_client})
    yield way, way, _no_id


@asynccontextmanager
async def streamablehttp_client(
    url: str, headers: dict[str, str] | None = None, timeout: float | timedelta = 30,
    sse_read_timeout: float | timedelta = 300, terminate_on_close: bool = True,
    httpx_client_factory: Callable[..., Any] | None = None, auth: Any = None,
) -> AsyncGenerator[tuple[Way, Way, GetSessionIdCallback], None]:  # fmt: skip
    """The way to ``url``, with ``headers`` on every request."""
    options: dict[str, Any] = {"headers": headers or {}}
    if auth is not None or httpx_client_factory is not None:
        from ..shared._httpx_utils import create_mcp_http_client

        make = httpx_client_factory or create_mcp_http_client
        options = {"http": make(headers=headers, auth=auth)}
    way = Way(url, options)
    yield way, way, _no_id
