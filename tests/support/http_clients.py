"""The HTTP clients that a `Client` can be given, so that suites run over each of them.

Mark a module with ``pytest.mark.usefixtures("http_library")`` and make its clients by `BringingClient`.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from typing import Any

from dovetail import Client
from dovetail.client.http_client import Fetch, Send
from dovetail.transports.http.client.adapters import fetch_with

LIBRARIES = ("httpx2", "httpx")
chosen: str | None = None
"""The library under test; None for our own client. Set by the fixture."""


@cache
def no_certificates() -> ssl.SSLContext:
    """Reading those of the system takes longer than a test."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def made_by(library: str, **options: Any) -> Any:
    """A client of ``library`` without a bound on its connections; enter it."""
    httpx = __import__(library)
    limits = httpx.Limits(max_connections=None)
    options.setdefault("verify", no_certificates())
    return httpx.AsyncClient(limits=limits, **{"trust_env": False, **options})


class Bringing:
    """A client of the library for each session, used through Dovetail's adapter."""

    def __init__(self, library: str) -> None:
        self._library = library

    def session(self) -> AbstractAsyncContextManager[Send]:
        return self._session()

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Send]:
        async with made_by(self._library) as client:
            async with fetch_with(client).session() as send:
                yield send
            assert not client.is_closed


def brought() -> Fetch | None:
    return None if chosen is None else Bringing(chosen)


class BringingClient(Client):
    """A client over the library under test."""

    def __init__(self, target: Any, **options: Any) -> None:
        super().__init__(target, **{"http": brought(), **options})
