"""HTTP clients that an application brings along, behind `client.fetch`: httpx2 and httpx.

For those who need what our own client does not do: HTTP/2, a corporate TLS stack, a pool of their own. Theirs are the
connections, proxies, certificates, cookies and the bound on connections; ours are time limits, redirects, the size of
what is unpacked, and the words for what goes wrong. A client of theirs is used and never closed.

It is recognised by the name of its type, so that nothing is imported that the application has not imported itself.
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
from .decompression import Body
from .url_parts import address_of, shown
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
"""What lies below a library's own error and says why there is no connection."""


def fetch_by(client: Any) -> Fetch:
    """What sends requests by ``client``.

    Raises:
        TypeError: it is none of the clients we know, and no `Fetch` either.
    """
    for kind in type(client).__mro__:
        library = kind.__module__.partition(".")[0]
        if library in ("httpx", "httpx2") and kind.__name__ == "AsyncClient":
            return HttpxClient(client, library)
    if isinstance(client, Fetch) and not isinstance(client, type):
        return client
    what = client.__name__ + " itself" if isinstance(client, type) else f"a {type(client).__name__}"
    raise TypeError(f"http must be {ACCEPTED}; not {what}")


class Head(NamedTuple):
    """A library's response whose head has arrived."""

    status: int
    headers: Mapping[str, str]
    body: AsyncIterator[bytes]
    """Packed as it came."""
    close: Callable[[], Awaitable[None]]
    """Let go of it, read or not."""


class LibrarySession:
    """The requests of one connection; leave it to let go of the answers that are still open."""

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
        """A session for requests to a single host at ``addresses``: httpx would look the name up again."""
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
        request(method, route, headers, None)  # what our own client would not send, others do not, either
        where, limit = route.where, asyncio.timeout(timeout)
        try:
            async with limit:
                sent = _with_ours(headers, route.address.authorization)
                head = await library.send(method, route.address.url, sent, body)
        except (TimeoutError, *library.errors) as error:
            if limit.expired():
                raise TransportError(f"{where} did not answer within {timeout} s", cause="timeout") from None
            raise library.explain(error, where, False) from error
        made = LibraryResponse(self, library, head, where)
        self._open.add(made)
        return made

    def let_go(self, response: LibraryResponse, closing: Coroutine[Any, Any, None] | None) -> None:
        """Forget ``response``. What is left to close is closed in a task: libraries do it asynchronously."""
        self._open.discard(response)
        if closing is not None:
            task = asyncio.get_running_loop().create_task(closing)
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


class LibraryResponse(Body):
    """The answer to one request; see `client.fetch.Response`."""

    def __init__(self, session: LibrarySession, library: HttpxClient, head: Head, where: str) -> None:
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
        if data is None:  # the library has let go of what was read to its end
            self._closed = True
            self._session.let_go(self, None)
        return data

    def close(self) -> None:
        """Let go of the answer; what is still on its way is not waited for."""
        if not self._closed:
            self._closed = True
            self._session.let_go(self, self._close())

    async def _close(self) -> None:
        try:
            await self._head.close()
        except (TimeoutError, *self._library.errors) as error:
            log.debug("closing an answer of %s: %s", self._where, error)


def _with_ours(headers: Mapping[str, str], authorization: str | None) -> dict[str, str]:
    given = {name.lower() for name in headers}
    ours = {"Accept-Encoding": ENCODINGS, "Authorization": authorization}
    more = {name: value for name, value in ours.items() if value is not None and name.lower() not in given}
    return {**more, **headers}


async def _whole(data: bytes) -> AsyncGenerator[bytes, None]:
    yield data


class HttpxClient:
    """A `Fetch` by a client of httpx, or of httpx2, which has the same interface. It outlives its sessions."""

    def __init__(self, client: Any, library: str) -> None:
        self._httpx: Any = importlib.import_module(library)
        self.client = client
        self.library = library
        self.name = f"{library}.AsyncClient"
        self.errors = (self._httpx.HTTPError, self._httpx.InvalidURL, OSError, ValueError, RuntimeError)
        """Everything it may raise."""
        self.unconnected: type[Exception] = self._httpx.ConnectError
        """Raised when there is no connection: nothing was sent."""

    @property
    def is_closed(self) -> bool:
        return self.client.is_closed

    def session(self) -> LibrarySession:
        return LibrarySession(self)

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, name: str | None = None
    ) -> Head:
        """Send one request; ``name`` is what a certificate has to be for, where ``url`` has an address in its place."""
        encoded = [(each.encode(), value.encode()) for each, value in headers.items()]
        more = None if name is None else {"sni_hostname": name}
        request = self.client.build_request(
            method, url, headers=encoded, content=body, timeout=None, extensions=more
        )
        response = await self.client.send(request, stream=True, follow_redirects=False)
        pieces, told = response.aiter_raw(), response.headers
        if (
            response.is_stream_consumed
        ):  # by a hook of the application; or a transport for tests made it whole
            pieces, told = _whole(response.content), self._httpx.Headers(told)
            told.pop("Content-Encoding", None)  # it has been unpacked

        async def close() -> None:
            try:
                await pieces.aclose()  # a generator: left alone, it would be closed whenever it is collected
            finally:
                await response.aclose()

        return Head(response.status_code, told, pieces, close)

    def explain(self, error: Exception, where: str, begun: bool) -> TransportError:
        """``error`` in our words; ``begun`` when the head of the answer was there."""
        httpx, said = self._httpx, _said(error)
        match error:
            case httpx.ConnectError():
                return unreachable(_root(error), where)
            case httpx.ProxyError():
                return TransportError(f"the proxy to {where} refuses: {said}", cause="proxy")
            case httpx.TimeoutException():
                return TransportError(f"{where} did not answer in time ({said})", cause="timeout")
            case httpx.RemoteProtocolError() if "disconnected" in said and not begun:
                return _broken(where, begun)
            case httpx.RemoteProtocolError() if "closed connection" in said:
                return _broken(where, True)
            case httpx.NetworkError() | OSError():
                return _broken(where, True)
            case httpx.HTTPError() | httpx.InvalidURL() | ValueError():
                return TransportError(f"{where} cannot be understood: {said}", cause="protocol")
            case _:
                return _unusable(self.name, said)


class _PinnedClient(HttpxClient):
    """``inner`` for requests to one host: they go to its ``addresses``, in its name, with its certificate."""

    def __init__(self, inner: HttpxClient, addresses: Sequence[str]) -> None:
        super().__init__(inner.client, inner.library)
        self._addresses = addresses

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, name: str | None = None
    ) -> Head:
        wanted = address_of(url)
        secure, name, port = wanted.origin
        # Their pools know connections by the address alone: one that was made in this name is for no other.
        lines = {"Host": wanted.name, "Connection": "close", **headers}
        failure: Exception = unreachable(socket.gaierror(socket.EAI_NONAME, "no address"), shown(url))
        for place in self._addresses:
            host = f"[{place}]" if ":" in place else place
            there = f"http{'s' if secure else ''}://{host}:{port}{wanted.path}"
            try:
                return await super().send(method, there, lines, body, name if secure else None)
            except self.unconnected as error:
                failure = error
        raise failure


def _said(error: Exception) -> str:
    return str(error)[:200] or type(error).__name__


def _broken(where: str, begun: bool) -> TransportError:
    if begun:
        return TransportError(f"{where} broke off its answer", cause="reset")
    return TransportError(f"{where} closed the connection without an answer", cause="eof")


def _unusable(name: str, said: str) -> TransportError:
    """Closed while it was used, or used in another event loop than its own."""
    return TransportError(f"the {name} given as http=… cannot be used: {said}", cause="closed")


def _root(error: BaseException) -> Exception:
    """What lies below a library's error, as far as it says why there is no connection."""
    below: BaseException | None = error
    while below is not None:
        if isinstance(below, _TELLING):
            return below
        if isinstance(below, BaseExceptionGroup):
            below = cast("BaseExceptionGroup[BaseException]", below).exceptions[0]
        else:
            below = below.__cause__ or below.__context__
    return OSError()
