"""`client.fetch` with aiohttp, which is imported when the first request is about to be made.

Everything aiohttp raises comes out as one `TransportError` with the cause in one word: refused, unresolved,
tls, reset, timeout, protocol.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from ...errors import DovetailError, TransportError

if TYPE_CHECKING:
    import aiohttp

_CHUNK = 64 << 10
_HEADER = 64 << 10
"""Bytes of one header of an answer; aiohttp's own limit is below the longest session id we take."""


class AiohttpFetch:
    """A pool of connections; ``verify`` may be an `ssl.SSLContext`.

    ``connections`` bounds those to one host. 0, the default, leaves that to `Limits.pending`: behind a bound of its
    own, calls that wait for our answer could hold every connection that the answer needs.
    """

    def __init__(self, *, connections: int = 0, verify: ssl.SSLContext | bool = True) -> None:
        self._connections = connections
        self._verify = verify

    def session(self) -> AiohttpSession:
        return AiohttpSession(self._connections, self._verify)


class AiohttpSession:
    """An open pool; leave it to close its connections."""

    def __init__(self, connections: int, verify: ssl.SSLContext | bool) -> None:
        self._connections = connections
        self._verify = verify
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> AiohttpSession:
        aiohttp = load()
        connector = aiohttp.TCPConnector(limit=0, limit_per_host=self._connections, ssl=self._verify)
        self._session = aiohttp.ClientSession(
            connector=connector,
            auto_decompress=True,
            cookie_jar=aiohttp.DummyCookieJar(),  # a server must not recognise us by anything but its session id
            timeout=aiohttp.ClientTimeout(total=None),  # the limits of a call are the client's business
            requote_redirect_url=False,
            max_field_size=_HEADER,
        )
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._session.close()

    async def __call__(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout: float | None = None,
    ) -> AiohttpResponse:
        try:
            async with asyncio.timeout(timeout):
                response = await self._session.request(
                    method, url, headers=headers, data=body, allow_redirects=False
                )
        except TimeoutError:
            raise TransportError(
                f"{origin(url)} did not answer within {timeout} s", cause="timeout"
            ) from None
        except (OSError, ValueError, _errors().ClientError) as error:
            raise translate(error, url) from error
        return AiohttpResponse(response, url)


class AiohttpResponse:
    """One answer."""

    def __init__(self, response: aiohttp.ClientResponse, url: str) -> None:
        self._response = response
        self._url = url
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self, limit: int) -> bytes:
        length = self._response.content_length
        if length is not None and length > limit:
            raise TransportError(f"the answer exceeds {limit} bytes", cause="protocol")
        pieces: list[bytes] = []
        size = 0
        async for piece in self.chunks():
            size += len(piece)
            if size > limit:
                raise TransportError(f"the answer exceeds {limit} bytes", cause="protocol")
            pieces.append(piece)
        return b"".join(pieces)

    async def chunks(self) -> AsyncIterator[bytes]:
        content = self._response.content
        try:
            while chunk := await content.readany():
                yield chunk
        except (OSError, ValueError, _errors().ClientError) as error:
            raise translate(error, self._url) from error

    def close(self) -> None:
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


def load() -> Any:
    """Import aiohttp.

    Raises:
        DovetailError: it is not installed; the message is the command to run.
    """
    try:
        import aiohttp
    except ImportError:
        raise DovetailError(
            "HTTP targets need aiohttp: pip install 'dovetail[http]'", kind="missing_extra"
        ) from None
    return aiohttp


def translate(error: Exception, url: str) -> TransportError:
    """What went wrong, in our words."""
    aiohttp = _errors()
    where = origin(url)
    match error:
        case aiohttp.ClientConnectorDNSError():
            return TransportError(f"the name of {where} cannot be resolved", cause="unresolved")
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            return TransportError(f"no secure connection to {where}: {error}", cause="tls")
        case aiohttp.ClientConnectorError():
            return TransportError(f"{where} refused the connection", cause="refused")
        case aiohttp.ServerDisconnectedError():
            return TransportError(f"{where} closed the connection without an answer", cause="eof")
        case aiohttp.InvalidURL():
            return TransportError(f"{where} is no URL", cause="protocol")
        case aiohttp.ClientPayloadError() | ConnectionError():
            return TransportError(f"{where} broke off its answer", cause="reset")
        case aiohttp.ClientResponseError():
            return TransportError(f"{where} does not speak HTTP: {error}", cause="protocol")
        case _:
            return TransportError(f"the request to {where} failed: {error}", cause="reset")


def origin(url: str) -> str:
    """``scheme://host:port`` of a URL, which is all of it that may appear in a message."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _errors() -> Any:
    import aiohttp

    return aiohttp
