"""Tokens: parsed from a token response, stored, and renewed in time."""

from __future__ import annotations

import re
from typing import Final

from .auth_errors import AuthError
from .steps import Answer, Quiet

RENEWAL_MARGIN: Final = 30.0
"""Seconds before expiry at which a token is renewed; a tenth of its lifetime if that is less."""
TOKEN_SIZE: Final = 64 << 10
"""Characters of a token, which is sent with every request."""


# RFC 6750, 2.1: b64token; other visible ASCII characters are harmless in a header.
_TOKEN = re.compile(r"[!-~]+")


class Tokens(Quiet, frozen=True, kw_only=True, omit_defaults=True):
    """The tokens of an authorization server for one resource."""

    access_token: str
    token_type: str = "Bearer"
    expires_at: float | None = None
    """Expiry in seconds since the epoch; None if unknown."""
    lifetime: float = 0
    refresh_token: str | None = None
    scopes: tuple[str, ...] | None = None
    """The granted scopes; None means all requested ones."""

    def due(self, now: float) -> bool:
        """Return whether to renew: shortly before expiry, so that no request arrives with an expired token."""
        if self.expires_at is None:
            return False
        return now >= self.expires_at - min(RENEWAL_MARGIN, self.lifetime / 10)


class TokenAnswer(Quiet, frozen=True):
    """A token response (RFC 6749, 5.1; OpenID Connect Core, 3.1.3.3)."""

    access_token: str
    token_type: str | None = None
    expires_in: float | str | None = None
    refresh_token: str | None = None
    scope: str | list[str] | None = None
    """A list at some providers, against RFC 6749."""
    id_token: str | None = None

    @property
    def scopes(self) -> tuple[str, ...] | None:
        return None if self.scope is None else _split(self.scope)


def _split(scope: str | list[str]) -> tuple[str, ...]:
    return tuple(scope.split() if isinstance(scope, str) else scope)


def read_tokens(answer: Answer, now: float, *, proven: bool = False) -> Tokens:
    """Return the tokens of a successful response. ``proven`` tokens must be bound to the client's key.

    Raises:
        AuthError: it contains no usable token.
    """
    what = "the answer of the token endpoint"
    found = answer.read(TokenAnswer, what, "authorization server")
    check_token(found.access_token, "access token")
    kind = (found.token_type or "Bearer").lower()
    wanted = "dpop" if proven else "bearer"
    if kind != wanted:
        said = kind if kind in ("bearer", "dpop", "mac", "n_a") else "another type"
        raise AuthError(
            f"the token endpoint gave a token of type {said}, not {wanted}", fault="authorization server"
        )
    lifetime = seconds(found.expires_in)
    return Tokens(
        access_token=found.access_token,
        token_type="DPoP" if proven else "Bearer",
        expires_at=None if lifetime is None else now + lifetime,
        lifetime=lifetime or 0,
        refresh_token=found.refresh_token or None,
        scopes=found.scopes,
    )


def check_token(token: str, what: str) -> str:
    """Return ``token`` if it can be sent in a header.

    Raises:
        AuthError: it cannot.
    """
    if len(token) > TOKEN_SIZE or not _TOKEN.fullmatch(token):
        raise AuthError(
            f"the {what} contains characters that a header does not allow", fault="authorization server"
        )
    return token


def seconds(value: float | str | None) -> float | None:
    """Return ``expires_in`` as a number, or None if it is not valid."""
    if isinstance(value, str):
        value = float(value) if value.isascii() and value.isdigit() and len(value) < 12 else None
    return value if value is not None and 0 < value < 1e11 else None
