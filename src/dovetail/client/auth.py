"""What a client needs of whoever authorizes its HTTP requests.

``auth=`` takes a bearer token, ``"oauth"``, a function that returns headers, an object with the two methods of `Auth`,
or what `dovetail.auth` has: objects with those of `RequestAuth`, which is what all the others are made into.
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
        """The headers for a request to ``url``. Called for each one: keep what is still good."""
        ...

    async def challenged(self, url: str, status: int, headers: Mapping[str, str]) -> bool:
        """The server answered 401 or 403. Return True to have the request repeated with new headers."""
        ...


class AuthRequest(NamedTuple):
    """A request that is about to be sent, or was."""

    method: str
    target: str
    """Where it goes."""
    url: str
    """The URL of the server it belongs to."""
    send: Send
    """Sends requests of the authorization's own."""


@runtime_checkable
class RequestAuth(Protocol):
    """Authorization that looks at each request, and may send some of its own to get one."""

    async def authorize(self, request: AuthRequest) -> Mapping[str, str]:
        """The headers that this request needs."""
        ...

    async def answered(
        self, request: AuthRequest, sent: Mapping[str, str], status: int, headers: Mapping[str, str]
    ) -> bool:
        """The server answered 401 or 403, or named a nonce. Return True to have a refused request repeated."""
        ...


class _Plain:
    """A function that returns headers, and one to ask after a refusal."""

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
    """Turn the ``auth=`` option into a `RequestAuth`.

    Raises:
        TypeError: it is none of the accepted forms.
    """
    if auth is None:
        return None
    if isinstance(auth, RequestAuth):
        return auth
    if auth == "oauth":
        from ..auth.client.oauth import OAuth  # loaded when somebody logs in

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
