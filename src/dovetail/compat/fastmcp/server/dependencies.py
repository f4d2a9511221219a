"""What a function may ask for wherever it runs: the context, the HTTP request, the token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...mcp.server.lowlevel.bridge import http_request
from ...mcp.server.session import current as native_current
from ..injection import Dependency, Depends, current

if TYPE_CHECKING:
    from .auth.access import AccessToken
    from .context import Context

_OWN_HEADERS: Final = frozenset(
    {
        "host", "content-length", "connection", "transfer-encoding", "upgrade", "te", "keep-alive", "expect",
        "accept", "content-type", "mcp-session-id", "mcp-protocol-version", "authorization", "proxy-authenticate",
        "proxy-authorization", "proxy-connection",
    }
)  # fmt: skip
"""Headers that belong to this connection, and are not for passing on."""


def get_context() -> Context:
    """The context of the request that is served here."""
    context = current.get()
    if context is None:
        raise RuntimeError("No active context found.")
    return context


def get_server() -> Any:
    """The server whose request is served here."""
    return get_context().fastmcp


def get_http_request() -> Any:
    """The HTTP request that carried the one served here, as Starlette's."""
    native = native_current.get()
    request = None if native is None else http_request(native)
    if request is None:
        raise RuntimeError("No active HTTP request found.")
    return request


def get_http_headers(include_all: bool = False, include: set[str] | None = None) -> dict[str, str]:
    """The headers of that request, in lower case; empty outside of one. Those of the connection are left out."""
    native = native_current.get()
    request = None if native is None else http_request(native)
    if request is None:
        return {}
    wanted = {name.lower() for name in include or ()}
    return {
        name.lower(): value
        for name, value in request.headers.items()
        if include_all or name.lower() not in _OWN_HEADERS or name.lower() in wanted
    }


def get_access_token() -> AccessToken | None:
    """The token of the caller; None where nobody has verified one."""
    native = native_current.get()
    if native is None or native.principal is None:
        from ...mcp.server.auth.middleware.auth_context import let_in

        return let_in()
    from .auth.access import access_token_of

    return access_token_of(native)


class _CurrentContext(Dependency):
    async def __aenter__(self) -> Any:
        return get_context()


class _CurrentFastMCP(Dependency):
    async def __aenter__(self) -> Any:
        return get_context().fastmcp


class _CurrentRequest(Dependency):
    async def __aenter__(self) -> Any:
        return get_http_request()


class _CurrentHeaders(Dependency):
    async def __aenter__(self) -> Any:
        return get_http_headers(include={"authorization"})


class _CurrentAccessToken(Dependency):
    async def __aenter__(self) -> Any:
        token = get_access_token()
        if token is None:
            raise RuntimeError(
                "No access token found. Ensure authentication is configured and the request is authenticated."
            )
        return token


class _TokenClaim(Dependency):
    def __init__(self, name: str) -> None:
        self.name = name

    async def __aenter__(self) -> Any:
        token = get_access_token()
        if token is None or self.name not in token.claims:
            raise RuntimeError(f"Claim '{self.name}' not found in the access token")
        return token.claims[self.name]


class Progress(Dependency):
    """How far the request is: set a total, count up, say what is being done."""

    def __init__(self) -> None:
        self.current: int | None = None
        self.total: int = 1
        self.message: str | None = None

    async def __aenter__(self) -> Progress:
        return Progress()

    async def _report(self) -> None:
        context = current.get()
        if context is not None:
            await context.report_progress(self.current or 0, self.total, self.message)

    async def set_total(self, total: int) -> None:
        self.total = total

    async def increment(self, amount: int = 1) -> None:
        self.current = (self.current or 0) + amount
        await self._report()

    async def set_message(self, message: str | None) -> None:
        self.message = message


def CurrentContext() -> Any:
    """The context, as a default value: ``ctx: Context = CurrentContext()``."""
    return _CurrentContext()


def CurrentFastMCP() -> Any:
    """The server."""
    return _CurrentFastMCP()


def CurrentRequest() -> Any:
    """The HTTP request."""
    return _CurrentRequest()


def CurrentHeaders() -> Any:
    """The headers of the HTTP request."""
    return _CurrentHeaders()


def CurrentAccessToken() -> Any:
    """The token of the caller."""
    return _CurrentAccessToken()


def TokenClaim(name: str) -> Any:
    """One claim of the caller's token."""
    return _TokenClaim(name)


__all__ = [
    "CurrentAccessToken", "CurrentContext", "CurrentFastMCP", "CurrentHeaders", "CurrentRequest", "Dependency",
    "Depends", "Progress", "TokenClaim", "get_access_token", "get_context", "get_http_headers", "get_http_request",
    "get_server",
]  # fmt: skip
