"""``websocket_client()``: a server at a ``ws://`` URL."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from .ways import Way


@asynccontextmanager
async def websocket_client(url: str) -> AsyncGenerator[tuple[Way, Way], None]:
    """The way to ``url``."""
    way = Way(url)
    yield way, way
