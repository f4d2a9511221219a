"""``sse_client()``: a server with the HTTP+SSE pair of 2024-11-05, or with whatever else is at that URL."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from .streamable_http import streamablehttp_client
from .ways import Way


@asynccontextmanager
async def sse_client(
    url: str, headers: dict[str, Any] | None = None, timeout: float = 5, sse_read_timeout: float = 300,
    httpx_client_factory: Callable[..., Any] | None = None, auth: Any = None,
    on_session_created: Callable[[str], None] | None = None,
) -> AsyncGenerator[tuple[Way, Way], None]:  # fmt: skip
    """The way to ``url``."""
    async with streamablehttp_client(
        url, headers, timeout, sse_read_timeout, httpx_client_factory=httpx_client_factory, auth=auth
    ) as (way, _, _):
        yield way, way
