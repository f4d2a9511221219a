"""The authorization interface of HTTP clients.

``auth=`` accepts a bearer token, ``"oauth"``, a function that returns headers, an object with the two methods
of `Auth`, or an object of `dovetail.auth`, which implements `RequestAuth`. All others are wrapped as
`RequestAuth`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol, cast, runtime_checkable

from .http_client import Send

CHALLENGES: Final = 3
"""Retries of one request after its authorization was renewed."""


@runtime_checkable
class Auth(Protocol):
    """The authorization of one client."""

    async def headers(self, url: str) -> Mapping[str, str]:
        """Return the headers for a request to ``url``. Called for each request: cache valid tokens."""
        ...

    async def challenged(self, url: str, status: int, headers: Mapping[str, str]) -> bool:
        """Handle a 401 or 403. Return True to repeat the request with new headers."""
        ...


class AuthRequest(NamedTuple):
    """A request before or after it is sent."""

    method: str
    target: str
    """The URL of the request."""
    url: str
    """The URL of the server it belongs to."""
    send: Send
    """Sends further requests of the authorization."""


@runtime_checkable
class RequestAuth(Protocol):
    """Authorization that sees each request and may send further requests to obtain tokens."""

    async def authorize(self, request: AuthRequest) -> Mapping[str, str]:
        """Return the headers for this request."""
        ...

    async def answered(
        self, request: AuthRequest, sent: Mapping[str, str], status: int, headers: Mapping[str, str]
    ) -> bool:
        """Handle a 401 or 403, or a new nonce. Return True to repeat a refused request."""
        ...


class _Plain:
    """Wraps a function that returns headers, and one that is called after a refusal."""

    def __init__(self, headers: Callable[[str], Any], challenged: Callable[..., Any] | None = None) -> None:
        self._headers = headers
        self._challenged = challenged

    async def authorize(self, request: AuthRequest) -> Mapping[str, str]:
        found = self._headers(request.url)
        return await cast("Awaitable[Mapping[str, str]]", found) if inspect.isawaitable(found) else found

    async def answered(
        self, request: AuthRequest, sent: Mapping[str, str], status: int, headers: Mapping[str, str]
    ) -> bool:
        if self._challenged is None or status not in (401, 403):
            return False
        return await self._challenged(request.url, status, headers)


def read_auth(auth: Any) -> RequestAuth | None:
    """Convert the ``auth=`` option to a `RequestAuth`.

    Raises:
        TypeError: the value is not an accepted form.
    """
    if auth is None:
        return None
    if isinstance(auth, RequestAuth):
        return auth
    if auth == "oauth":
        from ..auth.client.oauth import OAuth  # imported only for a login

        return OAuth()
    if isinstance(auth, str):
        token = {"Authorization": auth if " " in auth else f"Bearer {auth}"}
        return _Plain(lambda _: token)
    if isinstance(auth, Auth):
        return _Plain(auth.headers, auth.challenged)
    if callable(auth):
        return _Plain(lambda _: auth())
    raise TypeError(
        'auth must be a token, "oauth", something of dovetail.auth, a function that returns headers, or an object with '
        "headers and challenged"
    )
