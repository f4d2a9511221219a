"""``get_access_token()``: the token of the request that is being served here."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from .....common.auth import TokenPrincipal
from ...lowlevel.bridge import http_request, request_ctx
from ...session import current
from ..provider import AccessToken

auth_context_var: ContextVar[Any] = ContextVar("auth_context", default=None)
"""Whom an application of the program's own has let in: an `AuthenticatedUser`, or nobody."""


def get_access_token() -> AccessToken | None:
    """The token of the caller; None where nobody was authenticated."""
    context = current.get()
    principal = None if context is None else context.principal
    if context is None or principal is None:
        return let_in()
    if isinstance(principal, TokenPrincipal):
        return principal.access_token
    request, expires = http_request(context), principal.expires
    return AccessToken(
        token="" if request is None else request.headers.get("authorization", "").partition(" ")[2],
        client_id=principal.client_id or principal.subject,
        scopes=sorted(principal.scopes),
        expires_at=None if expires is None else int(expires),
    )


def let_in() -> Any:
    """The token of whom the program itself has let in: with this request, or before."""
    given = request_ctx.get(None)
    request = None if given is None else given.request
    for user in (None if request is None else request.scope.get("user"), auth_context_var.get()):
        if (token := getattr(user, "access_token", None)) is not None:
            return token
    return None


class AuthContextMiddleware:
    """For applications with ``AuthenticationMiddleware``: whoever that lets in is found by `get_access_token`."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        user = scope.get("user")
        token = auth_context_var.set(user if hasattr(user, "access_token") else None)
        try:
            await self.app(scope, receive, send)
        finally:
            auth_context_var.reset(token)
