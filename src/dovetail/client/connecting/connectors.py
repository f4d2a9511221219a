"""Openers: create links to each kind of target.

An opener is created once per client and opens any number of links. Heavy or optional modules (httptools,
websockets, subprocesses) are imported for the first link.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from ...core.channel import Link
from ..auth import CHALLENGES, AuthRequest
from ..client_config import ClientConfig
from ..conversation import Conversation
from ..http_client import Fetch, StatusError
from .targets import Connector


class _Connector:
    """Common parts of all openers."""

    http = False

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._limits = config.limits
        self._target = config.target
        if config.proxy is not True and config.target.kind in ("http", "websocket"):
            from ...transports.http.client.proxies import check_proxy

            check_proxy(config.proxy)

    async def release(self, link: Link) -> None:
        try:
            await link.wait_closed()
        except asyncio.CancelledError:
            link.abort()  # the caller is in a hurry, but nothing may be leaked
            await link.wait_closed()
            raise


class MemoryConnector(_Connector):
    """A server in this process, over a pair of in-memory links."""

    def __init__(self, config: ClientConfig) -> None:
        super().__init__(config)
        self._sides: dict[int, tuple[Any, Any]] = {}

    async def open(self, conversation: Conversation, transport: str) -> None:
        from ...drivers.duplex import accept, lifespan
        from ...transports.memory import connect

        running = lifespan(self._target.service)
        await running.__aenter__()
        duplex = accept(self._target.service, principal=self._target.principal, scope={"transport": "memory"})
        link, _ = connect(conversation, duplex, limits=self._limits)
        self._sides[id(link)] = (duplex, running)

    async def release(self, link: Link) -> None:
        side = self._sides.pop(id(link), None)
        if side is not None:
            duplex, running = side
            await duplex.close()
            await running.__aexit__(None, None, None)


class ChildConnector(_Connector):
    """A command, run as a child process."""

    async def open(self, conversation: Conversation, transport: str) -> None:
        from ...transports import child

        config = self._config
        more: dict[str, Any] = {} if config.on_stderr is None else {"on_stderr": config.on_stderr}
        await child.spawn(
            conversation, self._target.command, env=config.env, cwd=config.cwd, limits=self._limits, **more
        )


class SocketConnector(_Connector):
    """TCP, TLS or a Unix socket."""

    def __init__(self, config: ClientConfig) -> None:
        super().__init__(config)
        if config.target.tls and config.ssl is False:
            raise ValueError("ssl=False contradicts tls://: use tcp://, or an ssl.SSLContext of your own")

    async def open(self, conversation: Conversation, transport: str) -> None:
        from ...transports import tcp

        target, limits, timeout = self._target, self._limits, self._config.timeouts.connect
        if target.kind == "unix":
            await tcp.connect(conversation, path=target.path, limits=limits, timeout=timeout)
            return
        context = self._config.ssl
        if target.tls and context is None:
            import ssl

            context = ssl.create_default_context()
        await tcp.connect(conversation, target.host, target.port, ssl=context, limits=limits, timeout=timeout)

    async def release(self, link: Link) -> None:
        # The transport notices its end in the next iteration; a peer that does not read is disconnected.
        await asyncio.sleep(0)


class WebSocketConnector(_Connector):
    """A WebSocket."""

    async def open(self, conversation: Conversation, transport: str) -> None:
        config, url = self._config, self._target.url
        if config.auth is None:
            await self._connect(conversation, {})
            return
        async with own_fetch(config).session() as send:
            request = AuthRequest("GET", url, url, send)
            for challenges in range(CHALLENGES + 1):
                sent = await config.auth.authorize(request)
                try:
                    await self._connect(conversation, sent)
                    return
                except StatusError as error:
                    said = {"WWW-Authenticate": error.challenge or ""}
                    with conversation.unhurried():
                        better = await config.auth.answered(request, sent, error.status, said)
                    if not better or challenges == CHALLENGES:
                        raise

    async def _connect(self, conversation: Conversation, more: Mapping[str, str]) -> None:
        from ...transports import websocket

        config, limits = self._config, self._config.limits
        settings: dict[str, Any] = {
            "timeout": config.timeouts.connect,
            "ssl": config.ssl,
            "proxy": config.proxy,
        }
        headers = {**config.headers, **more}
        await websocket.connect(conversation, config.target.url, headers=headers, limits=limits, **settings)


class HttpConnector(_Connector):
    """Streamable HTTP of all revisions, and HTTP+SSE of 2024-11-05.

    Raises:
        TypeError: ``http`` cannot send requests.
        ValueError: ``proxy`` is not valid, or built-in client settings are combined with another client.
    """

    http = True

    def __init__(self, config: ClientConfig) -> None:
        super().__init__(config)
        self._fetch: Fetch | None = None
        if config.http is not None:
            from ...transports.http.client.adapters import fetch_with

            if config.ssl is not None or config.proxy is not True:
                raise ValueError("with http=…, TLS and proxies are settings of that HTTP client")
            self._fetch = fetch_with(config.http)

    async def open(self, conversation: Conversation, transport: str) -> None:
        from ...transports.http.client.link import StreamableLink
        from ...transports.http.client.sse_link import SseLink

        make = SseLink if transport == "sse" else StreamableLink
        link = make(conversation, self._config, self._fetch or own_fetch(self._config))
        await link.open()


def own_fetch(config: ClientConfig) -> Fetch:
    """Return the built-in HTTP client with the settings of this client."""
    from ...transports.http.client.connection_pool import HttpFetch

    return HttpFetch(verify=True if config.ssl is None else config.ssl, proxy=config.proxy)


_OPENERS: dict[str, Callable[[ClientConfig], Connector]] = {
    "memory": MemoryConnector,
    "child": ChildConnector,
    "tcp": SocketConnector,
    "unix": SocketConnector,
    "websocket": WebSocketConnector,
    "http": HttpConnector,
}


def opener_for(config: ClientConfig) -> Connector:
    """Return the opener for the target, which may itself be an opener."""
    target = config.target
    return target.service if target.kind == "opener" else _OPENERS[target.kind](config)
