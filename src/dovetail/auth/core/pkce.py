"""PKCE: binds an authorization code to the client that requested it (RFC 7636). Only S256."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode

from .auth_errors import AuthError
from .discovery import ServerMetadata


def s256(verifier: str) -> str:
    """Return the ``code_challenge`` of a ``code_verifier``."""
    return base64url(hashlib.sha256(verifier.encode()).digest())


def base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def check_s256(server: ServerMetadata) -> None:
    """Check that the server supports S256.

    Authorization 2025-11-25: if ``code_challenge_methods_supported`` is absent, clients MUST refuse to
    proceed.

    Raises:
        AuthError: the metadata does not contain S256.
    """
    methods = server.code_challenge_methods_supported
    if methods is None or "S256" not in methods:
        said = "names none" if methods is None else f"names only {', '.join(methods) or 'an empty list'}"
        raise AuthError(
            f"the authorization server {server.issuer} does not offer PKCE with S256: its "
            f"code_challenge_methods_supported {said}",
            fault="authorization server",
            advice="add S256 to code_challenge_methods_supported",
        )
