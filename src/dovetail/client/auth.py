"""What a client needs of whoever authorizes its HTTP requests.

``auth=`` takes a bearer token, a function that returns headers, or an object with the two methods of `Auth`; an
OAuth flow is such an object.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, cast, runtime_checkable


@runtime_checkable
class Auth(Protocol):
    """The authorization of one client."""

    async def headers(self, url: str) -> Mapping[str, str]:
        """The headers for a request to ``url``. Called for each one: keep what is still good."""
        ...

    async def challenged(self, url: str, status: int, headers: Mapping[str, str]) -> bool:
        """The server answered 401 or 403. Return True to have the request repeated with new headers."""
        ...


class _Fixed:
    def __init__(self, headers: Callable[[], Any]) -> None:
        self._headers = headers

    async def headers(self, url: str) -> Mapping[str, str]:
        found = self._headers()
        return await cast("Awaitable[Mapping[str, str]]", found) if inspect.isawaitable(found) else found

    async def challenged(self, url: str, status: int, headers: Mapping[str, str]) -> bool:
        return False


def read_auth(auth: Any) -> Auth | None:
    """Turn the ``auth=`` option into an `Auth`.

    Raises:
        TypeError: it is none of the accepted forms.
    """
    if auth is None:
        return None
    if isinstance(auth, str):
        token = {"Authorization": auth if " " in auth else f"Bearer {auth}"}
        return _Fixed(lambda: token)
    if isinstance(auth, Auth):
        return auth
    if callable(auth):
        return _Fixed(cast("Callable[[], Any]", auth))
    raise TypeError(
        "auth must be a token, a function that returns headers, or an object with headers and challenged"
    )
