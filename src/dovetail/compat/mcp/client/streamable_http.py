"""``streamablehttp_client()``: a server at a URL."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from ....client.auth import RequestAuth
from ..shared._httpx_utils import MCP_DEFAULT_SSE_READ_TIMEOUT, create_mcp_http_client, httpx_timeout
from .ways import Way, seconds

GetSessionIdCallback = Callable[[], str | None]


def _no_id() -> str | None:
    """Sessions are ours: whoever needs their id has to ask the server's operator."""
    return None


def _silence(http_client: Any) -> float | None:
    """How long somebody's ``httpx`` client lets a server be silent; ours, where there is none, as long as theirs."""
    return getattr(getattr(http_client, "timeout", None), "read", MCP_DEFAULT_SSE_READ_TIMEOUT)


@asynccontextmanager
async def streamable_http_client(
    url: str, *, http_client: Any = None, terminate_on_close: bool = True
) -> AsyncGenerator[tuple[Way, Way, GetSessionIdCallback], None]:
    """The way to ``url``; ``http_client`` makes the requests, where one is given."""
    way = Way(url, {} if http_client is None else {"http": http_client}, _silence(http_client))
    yield way, way, _no_id


@asynccontextmanager
async def streamablehttp_client(
    url: str, headers: dict[str, str] | None = None, timeout: float | timedelta = 30,
    sse_read_timeout: float | timedelta = 300, terminate_on_close: bool = True,
    httpx_client_factory: Callable[..., Any] | None = None, auth: Any = None,
) -> AsyncGenerator[tuple[Way, Way, GetSessionIdCallback], None]:  # fmt: skip
    """The way to ``url``, with ``headers`` on every request.

    ``sse_read_timeout`` is how long the server may be silent. ``timeout`` is for an ``httpx`` client of the program
    (to connect, to write): with ours, an address that does not answer is silent too.
    """
    silence = seconds(sse_read_timeout)
    options: dict[str, Any] = {"headers": headers or {}}
    if httpx_client_factory is None and isinstance(auth, RequestAuth):
        options["auth"] = auth
    elif auth is not None or httpx_client_factory is not None:
        make = httpx_client_factory or create_mcp_http_client
        limit = httpx_timeout(seconds(timeout), silence)
        options = {"http": make(headers=headers, timeout=limit, auth=auth)}
    way = Way(url, options, silence)
    yield way, way, _no_id
