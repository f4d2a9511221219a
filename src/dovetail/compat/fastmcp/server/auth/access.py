"""`AccessToken`: what a verifier of FastMCP says of a token, and the principal of ours that carries it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from ....common.auth import TokenPrincipal
from ....mcp.server.auth.provider import AccessToken as SdkToken
from ....mcp.server.lowlevel.bridge import http_request

if TYPE_CHECKING:
    from .....server import Context


class AccessToken(SdkToken):
    """A token that was verified."""

    claims: dict[str, Any] = Field(default_factory=dict)  # pyright: ignore[reportIncompatibleVariableOverride]


def access_token_of(context: Context) -> Any:
    """The access token of the caller, made of its principal where another verifier has let it in."""
    principal = context.principal
    if principal is None or isinstance(principal, TokenPrincipal):
        return None if principal is None else principal.access_token
    request = http_request(context)
    token = "" if request is None else request.headers.get("authorization", "").partition(" ")[2]
    expires = principal.expires
    return AccessToken(
        token=token, client_id=principal.client_id or principal.subject, scopes=sorted(principal.scopes),
        expires_at=None if expires is None else int(expires), subject=principal.subject,
        claims=dict(principal.claims),
    )  # fmt: skip
