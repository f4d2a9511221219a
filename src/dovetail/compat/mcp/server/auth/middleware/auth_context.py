"""``get_access_token()``: the token of the request that is being served here."""

from .....common.auth import TokenPrincipal
from ...lowlevel.bridge import http_request
from ...session import current
from ..provider import AccessToken


def get_access_token() -> AccessToken | None:
    """The token of the caller; None where nobody was authenticated."""
    context = current.get()
    principal = None if context is None else context.principal
    if context is None or principal is None:
        return None
    if isinstance(principal, TokenPrincipal):
        return principal.access_token
    request, expires = http_request(context), principal.expires
    return AccessToken(
        token="" if request is None else request.headers.get("authorization", "").partition(" ")[2],
        client_id=principal.client_id or principal.subject,
        scopes=sorted(principal.scopes),
        expires_at=None if expires is None else int(expires),
    )
