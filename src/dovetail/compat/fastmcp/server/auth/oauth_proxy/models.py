"""What FastMCP's proxy keeps of its clients, for those who look at it; ours keeps nothing of them."""

from __future__ import annotations

from typing import Any

from pydantic import AnyUrl

from .....mcp.shared.auth import InvalidRedirectUriError, OAuthClientInformationFull
from ..redirects import is_allowed


class ProxyDCRClient(OAuthClientInformationFull):
    """A client whose users may be sent back to any address that a pattern fits."""

    allowed_redirect_uri_patterns: list[str] | None = None
    cimd_document: Any = None
    cimd_fetched_at: float | None = None

    def validate_redirect_uri(self, redirect_uri: AnyUrl | None) -> AnyUrl:
        patterns = self.allowed_redirect_uri_patterns
        if redirect_uri is None or patterns is None:
            return super().validate_redirect_uri(redirect_uri)
        if not is_allowed(str(redirect_uri), patterns):
            raise InvalidRedirectUriError(f"Redirect URI '{redirect_uri}' does not match allowed patterns.")
        return redirect_uri
