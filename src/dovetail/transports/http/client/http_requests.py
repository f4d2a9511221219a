"""HTTP requests to one origin: authorization, redirects, retries after 401, and statuses as errors.

Credentials are never sent to another origin: a redirect there is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Final
from urllib.parse import urljoin

from ....client.auth import CHALLENGES, AuthRequest
from ....client.client_config import ClientConfig
from ....client.http_client import Fetch, Response, Send, StatusError
from ....errors import StateError, TransportError
from .url_parts import displayed, same_origin

ERROR_EXCERPT: Final = 64 << 10
"""Bytes that are read of a response with an error status."""
REDIRECTS: Final = 3
"""Redirects of one request that are followed."""


MAX_RETRY_AFTER: Final = 86_400
"""Longest accepted Retry-After in seconds; larger values are reduced to it."""

Patience = Callable[[], AbstractContextManager[None]]

_REDIRECTS = frozenset({301, 302, 307, 308})


class OriginRequests:
    """Sends the requests of one connection. Open it first; close it when no request is in progress."""

    def __init__(self, config: ClientConfig, fetch: Fetch, patience: Patience) -> None:
        """``patience`` is entered during an authorization, which may wait for the user."""
        self.url = config.target.url
        self._patience = patience
        self._headers = config.headers
        self._auth = config.auth
        self._pool: AbstractAsyncContextManager[Send] = fetch.session()
        self._send: Send | None = None

    async def open(self) -> None:
        self._send = await self._pool.__aenter__()

    async def close(self) -> None:
        if self._send is not None:
            self._send = None
            await self._pool.__aexit__(None, None, None)

    async def send(
        self, method: str, headers: Mapping[str, str], body: bytes | None = None, *, url: str | None = None
    ) -> Response:
        """Send one request. Redirects within the origin and renewed authorizations are followed.

        Raises:
            TransportError: no response, or a redirect that is not allowed.
        """
        if self._send is None:
            raise StateError("the connection is closed")
        target = url or self.url
        redirects = challenges = 0
        while True:
            sent = {**self._headers, **headers} if self._headers else headers
            request = None
            if self._auth is not None:
                request = AuthRequest(method, target, self.url, self._send)
                sent = {**sent, **await self._auth.authorize(request)}
            response = await self._send(method, target, sent, body)
            status = response.status
            if status < 300 and (request is None or "DPoP-Nonce" not in response.headers):
                return response
            if status in _REDIRECTS:
                redirects += 1
                response.close()
                target = self._redirected(target, response.headers.get("Location"), redirects)
            elif (
                request is None
                or challenges == CHALLENGES
                or not await self._renewed(request, sent, response)
            ):
                return response
            else:
                challenges += 1
                response.close()

    async def _renewed(self, request: AuthRequest, sent: Mapping[str, str], response: Response) -> bool:
        assert self._auth is not None
        try:
            with self._patience():
                return await self._auth.answered(request, sent, response.status, response.headers)
        except BaseException:
            response.close()
            raise

    def _redirected(self, target: str, location: str | None, redirects: int) -> str:
        if redirects > REDIRECTS:
            raise TransportError(f"more than {REDIRECTS} redirects by the server", cause="redirect")
        if not location:
            raise TransportError("the server sent a redirect without a Location header", cause="redirect")
        where = urljoin(target, location)
        if not same_origin(where, self.url):
            raise TransportError(
                f"the redirect to another origin ({displayed(where)}) is not followed; use that URL if it is correct",
                cause="redirect",
            )
        return where


def media_type(headers: Mapping[str, str]) -> str:
    """Return the media type of a body without parameters."""
    said = headers.get("Content-Type", "")
    return said if said == "application/json" else said.partition(";")[0].strip().lower()


async def status_error(response: Response, what: str, body: bytes | None = None) -> StatusError:
    """Return the error for an HTTP status. Reads the beginning of the body for the message."""
    status = response.status
    headers = response.headers
    if body is None:
        body = await excerpt(response)
    said = f": {quote(body, headers)}" if body.strip() else ""
    challenge = headers.get("WWW-Authenticate")
    return StatusError(
        status,
        f"{what} failed with HTTP {status}{said}{status_advice(status, challenge)}",
        retry_after=_seconds(headers.get("Retry-After")),
        challenge=challenge,
    )


def status_advice(status: int, challenge: str | None) -> str:
    """Return advice for a status, in parentheses; for 401 and 403 with the reason of the challenge."""
    reason = refusal_reason(status, challenge)
    return _ADVICE.get(status, "") if reason is None else f" (the server refused the authorization: {reason})"


def refusal_reason(status: int, challenge: str | None) -> str | None:
    """Return why the server refused the authorization, from its challenge (RFC 6750, 3); None if it does not
    say."""
    if status not in (401, 403) or challenge is None:
        return None
    from ....auth.core.challenge import read  # imported only after a refusal

    for one in read(challenge):
        reason = one.parameters.get("error_description") or one.parameters.get("error")
        if reason is not None:
            return "".join(each for each in reason[:200] if each.isprintable())
    return None


AUTHORIZATION_ADVICE: Final = 'the server requires authorization: set auth="oauth" or a token'
_ADVICE = {
    401: f" ({AUTHORIZATION_ADVICE})",
    403: " (the authorization is not sufficient)",
    404: " (check the path of the URL)",
    406: " (it accepts neither JSON nor an event stream)",
    407: " (a proxy requires authorization)",
}


async def excerpt(response: Response, limit: int = ERROR_EXCERPT) -> bytes:
    """Return the first ``limit`` bytes of a body, or the part received before it broke."""
    body = bytearray()
    try:
        async for chunk in response.chunks():
            body += chunk
            if len(body) > limit:
                break
    except TransportError:
        pass
    return bytes(body[:limit])


def quote(body: bytes, headers: Mapping[str, str]) -> str:
    """Quote the beginning of a body on one line."""
    text = " ".join(body[:2000].decode(errors="replace").split())
    kind = media_type(headers)
    return f"{kind + ' ' if kind else ''}{text[:200]!r}"


def _seconds(value: str | None) -> float | None:
    said = "" if value is None else value.strip()
    # Both checks: some Unicode digits are not numbers.
    return float(min(int(said[:9]), MAX_RETRY_AFTER)) if said.isascii() and said.isdigit() else None
