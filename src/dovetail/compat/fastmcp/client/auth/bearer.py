"""A token that a client was given."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from pydantic import SecretStr

from .....errors import KINDS, DovetailError


class BearerAuth:
    """Sends ``token`` with every request; also an ``auth=`` for httpx, which calls it."""

    def __init__(self, token: str) -> None:
        self.token = SecretStr(token)

    def __call__(self, request: Any) -> Any:
        return next(self.auth_flow(request))

    def auth_flow(self, request: Any) -> Generator[Any, Any, None]:
        request.headers["Authorization"] = f"Bearer {self.token.get_secret_value()}"
        yield request


def token_of(auth: Any) -> Any:
    """What our client takes for ``auth``: a text, or whatever it is."""
    token = getattr(auth, "token", auth)
    return token.get_secret_value() if isinstance(token, SecretStr) else token


def not_let_in(error: DovetailError, transport: Any) -> Exception:
    """Why a client could not connect: the status of httpx where the server wants to know who it is."""
    row, url = KINDS.get(error.kind), getattr(transport, "url", None)
    if row is None or row.status not in (401, 403) or url is None:
        return RuntimeError(f"Client failed to connect: {error.message}")
    try:
        import httpx  # whoever catches its errors has it
    except ModuleNotFoundError:
        return RuntimeError(f"Client failed to connect: {error.message}")
    request = httpx.Request("POST", url)
    return httpx.HTTPStatusError(
        f"Client error '{row.status}' for url '{url}': {error.message}",
        request=request, response=httpx.Response(row.status, request=request),
    )  # fmt: skip
