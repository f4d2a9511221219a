"""A server and its client in one process, for tests."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from ...serving import Served
from ..client.session import ClientSession
from ..client.ways import Way
from ..types import LATEST_PROTOCOL_VERSION


@asynccontextmanager
async def create_connected_server_and_client_session(
    server: Served, read_timeout_seconds: timedelta | None = None, sampling_callback: Any = None,
    list_roots_callback: Any = None, logging_callback: Any = None, message_handler: Any = None,
    client_info: Any = None, raise_exceptions: bool = False, elicitation_callback: Any = None,
) -> AsyncGenerator[ClientSession, None]:  # fmt: skip
    """A session with ``server``, ready for calls."""
    # The newest revision of theirs: what such tests look at is its handshake, its codes and its notifications.
    way = Way(server.native, {"revision": LATEST_PROTOCOL_VERSION})
    async with ClientSession(
        way,
        way,
        read_timeout_seconds,
        sampling_callback,
        elicitation_callback,
        list_roots_callback,
        logging_callback,
        message_handler,
        client_info,
    ) as session:
        await session.initialize()
        yield session
