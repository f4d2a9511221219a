"""Adapters for HTTP clients that the application provides: httpx2 and httpx.

They serve applications that need what the built-in client lacks: HTTP/2, a corporate TLS stack, a shared
pool. The library handles connections, proxies, certificates, cookies and the connection limit. Dovetail
handles timeouts, redirects, the size of decompressed bodies, and error messages. The application's client is
never closed.

Clients are recognised by the name of their type, so that no library is imported unnecessarily.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from ....client.http_client import Fetch
from ....errors import TransportError
from .connect_socket import unreachable
from .decompression import DecompressedBody
from .url_parts import address_of, displayed
from .url_routes import ENCODINGS, request, route_to

GOODBYE: Final = 2.0
"""Seconds that the server has to answer the DELETE of a session."""


log = logging.getLogger("dovetail.client")

ACCEPTED = "an httpx2.AsyncClient, an httpx.AsyncClient or an object with session()"
_TELLING = (
    socket.gaierror,
    ssl.SSLError,
    ConnectionRefusedError,
    ConnectionAbortedError,
    ConnectionResetError,
)
"""Causes of a library error that explain the failed connection."""


def fetch_with(client: Any) -> Fetch:
    """Return the `Fetch` that sends requests with ``client``.

    Raises:
        TypeError: it is not a supported client, and not a `Fetch` either.
    """
    for kind in type(client).__mro__:
        library = kind.__module__.partition(".")[0]
        if library in ("httpx", "httpx2") and kind.__name__ == "AsyncClient":
            return HttpxClient(client, library)
    if isinstance(client, Fetch) and not isinstance(client, type):
        return client
    what = client.__name__ + " itself" if isinstance(client, type) else f"a {type(client).__name__}"
    raise TypeError(f"http must be {ACCEPTED}; not {what}")


class LibraryHeaders(NamedTuple):
    """A library's response whose headers were received."""

    status: int
    headers: Mapping[str, str]
    body: AsyncIterator[bytes]
    """The body, still compressed."""
    close: Callable[[], Awaitable[None]]
    """Closes the response, read or not."""


class LibrarySession:
    """The requests of one connection. Leaving it closes the open responses."""

    def __init__(self, library: HttpxClient) -> None:
        self.library = library
        self._open: set[LibraryResponse] = set()
        self._closing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> LibrarySession:
        return self

    async def __aexit__(self, *exception: object) -> None:
        for response in list(self._open):
            response.close()
        if self._closing:
            await asyncio.wait(list(self._closing), timeout=GOODBYE)

    def pinned(self, addresses: Sequence[str]) -> LibrarySession:
        """Return a session for requests to one host at ``addresses``: httpx would resolve the name again."""
        return _PinnedClient(self.library, addresses).session()

    async def __call__(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout: float | None = None,
    ) -> LibraryResponse:
        library = self.library
        if library.is_closed:
            raise TransportError(f"the {library.name} given as http=… is closed", cause="closed")
        route = route_to(url, proxy=False)
        request(method, route, headers, None)  # refuses what the built-in client would refuse
        where, limit = route.where, asyncio.timeout(timeout)
        try:
            async with limit:
                sent = _merged_headers(headers, route.address.authorization)
                head = await library.send(method, route.address.url, sent, body)
        except (TimeoutError, *library.errors) as error:
            if limit.expired():
                raise TransportError(f"{where} did not respond within {timeout} s", cause="timeout") from None
            raise library.explain(error, where, False) from error
        made = LibraryResponse(self, library, head, where)
        self._open.add(made)
        return made

    def release(self, response: LibraryResponse, closing: Coroutine[Any, Any, None] | None) -> None:
        """Release ``response``. Remaining work runs in a task, because libraries close asynchronously."""
        self._open.discard(response)
        if closing is not None:
            task = asyncio.get_running_loop().create_task(closing)
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


class LibraryResponse(DecompressedBody):
    """The response to one request; see `client.http_client.Response`."""

    def __init__(
        self, session: LibrarySession, library: HttpxClient, head: LibraryHeaders, where: str
    ) -> None:
        self.status = head.status
        self.headers = head.headers
        self._head = head
        self._library = library
        self._where = where
        self._session = session
        self._closed = False
        encoding = self.headers.get("Content-Encoding", "").strip().lower()
        self.encoding = "" if encoding == "identity" else encoding
        self._inflater = None
        self._pieces = iter(())

    async def more(self) -> bytes | None:
        try:
            data = await anext(self._head.body, None)
        except (TimeoutError, *self._library.errors) as error:
            raise self._library.explain(error, self._where, True) from error
        if data is None:  # the library releases a response that was read to its end
            self._closed = True
            self._session.release(self, None)
        return data

    def close(self) -> None:
        """Release the response; the rest of it is not awaited."""
        if not self._closed:
            self._closed = True
            self._session.release(self, self._close())

    async def _close(self) -> None:
        try:
            await self._head.close()
        except (TimeoutError, *self._library.errors) as error:
            log.debug("response close failed server=%s reason=%s", self._where, error)


def _merged_headers(headers: Mapping[str, str], authorization: str | None) -> dict[str, str]:
    given = {name.lower() for name in headers}
    ours = {"Accept-Encoding": ENCODINGS, "Authorization": authorization}
    more = {name: value for name, value in ours.items() if value is not None and name.lower() not in given}
    return {**more, **headers}


async def _whole(data: bytes) -> AsyncGenerator[bytes, None]:
    yield data


class HttpxClient:
    """A `Fetch` that uses a client of httpx or of httpx2, which has the same interface.

    It outlives its sessions.
    """

    def __init__(self, client: Any, library: str) -> None:
        self._httpx: Any = importlib.import_module(library)
        self.client = client
        self.library = library
        self.name = f"{library}.AsyncClient"
        self.errors = (self._httpx.HTTPError, self._httpx.InvalidURL, OSError, ValueError, RuntimeError)
        """Every exception it may raise."""
        self.unconnected: type[Exception] = self._httpx.ConnectError
        """Raised if connecting failed: nothing was sent."""

    @property
    def is_closed(self) -> bool:
        return self.client.is_closed

    def session(self) -> LibrarySession:
        return LibrarySession(self)

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, name: str | None = None
    ) -> LibraryHeaders:
        """Send one request. ``name`` is the host for the certificate if ``url`` contains an address."""
        encoded = [(each.encode(), value.encode()) for each, value in headers.items()]
        more = None if name is None else {"sni_hostname": name}
        request = self.client.build_request(
            method, url, headers=encoded, content=body, timeout=None, extensions=more
        )
        response = await self.client.send(request, stream=True, follow_redirects=False)
        pieces, told = response.aiter_raw(), response.headers
        if (
            response.is_stream_consumed
        ):  # read by a hook of the application, or complete because of a test transport
            pieces, told = _whole(response.content), self._httpx.Headers(told)
            told.pop("Content-Encoding", None)  # already decompressed

        async def close() -> None:
            try:
                await pieces.aclose()  # a generator: otherwise it is closed only when garbage-collected
            finally:
                await response.aclose()

        return LibraryHeaders(response.status_code, told, pieces, close)

    def explain(self, error: Exception, where: str, begun: bool) -> TransportError:
        """Convert a library error; ``begun`` if the response headers were received."""
        httpx, said = self._httpx, _message(error)
        match error:
            case httpx.ConnectError():
                return unreachable(_root(error), where)
            case httpx.ProxyError():
                return TransportError(f"the proxy for {where} refused the request: {said}", cause="proxy")
            case httpx.TimeoutException():
                return TransportError(f"{where} did not respond in time ({said})", cause="timeout")
            case httpx.RemoteProtocolError() if "disconnected" in said and not begun:
                return _broken(where, begun)
            case httpx.RemoteProtocolError() if "closed connection" in said:
                return _broken(where, True)
            case httpx.NetworkError() | OSError():
                return _broken(where, True)
            case httpx.HTTPError() | httpx.InvalidURL() | ValueError():
                return TransportError(f"{where} sent an invalid HTTP response: {said}", cause="protocol")
            case _:
                return _unusable(self.name, said)


class _PinnedClient(HttpxClient):
    """A client for requests to one host: connects to ``addresses``, with its name and certificate."""

    def __init__(self, inner: HttpxClient, addresses: Sequence[str]) -> None:
        super().__init__(inner.client, inner.library)
        self._addresses = addresses

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, name: str | None = None
    ) -> LibraryHeaders:
        wanted = address_of(url)
        secure, name, port = wanted.origin
        # The libraries key connections by address. A connection for this name must not serve another one.
        lines = {"Host": wanted.name, "Connection": "close", **headers}
        failure: Exception = unreachable(socket.gaierror(socket.EAI_NONAME, "no address"), displayed(url))
        for place in self._addresses:
            host = f"[{place}]" if ":" in place else place
            there = f"http{'s' if secure else ''}://{host}:{port}{wanted.path}"
            try:
                return await super().send(method, there, lines, body, name if secure else None)
            except self.unconnected as error:
                failure = error
        raise failure


def _message(error: Exception) -> str:
    return str(error)[:200] or type(error).__name__


def _broken(where: str, begun: bool) -> TransportError:
    if begun:
        return TransportError(f"{where} closed the connection in the middle of a response", cause="reset")
    return TransportError(f"{where} closed the connection without a response", cause="eof")


def _unusable(name: str, said: str) -> TransportError:
    """The client was closed while in use, or used in another event loop."""
    return TransportError(f"the {name} given as http=… cannot be used: {said}", cause="closed")


def _root(error: BaseException) -> Exception:
    """Return the cause of a library error, if it explains the failed connection."""
    below: BaseException | None = error
    while below is not None:
        if isinstance(below, _TELLING):
            return below
        if isinstance(below, BaseExceptionGroup):
            below = cast("BaseExceptionGroup[BaseException]", below).exceptions[0]
        else:
            below = below.__cause__ or below.__context__
    return OSError()
