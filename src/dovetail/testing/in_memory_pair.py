"""A server and a client in one process, on any revision."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from ..client import Client


@asynccontextmanager
async def connect(server: Any, revision: str = "auto", **options: Any) -> AsyncGenerator[Client, None]:
    """A client connected to ``server`` in memory; ``options`` are the client's own.

    ```python
    async with connect(server, "2025-06-18", on_elicit=lambda request: {"seat": "12A"}) as client:
        assert (await client.call_tool("book", {"flight": "DY1"})).data["seat"] == "12A"
    ```
    """
    async with Client(server, revision=revision, **options) as client:
        yield client
