"""Validation of token claims, and the principal they identify (RFC 9068, RFC 7662, RFC 8707).

Every required claim must be present and of its type. Each refusal has its own reason, which contains nothing
of the token.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, cast

from msgspec import Struct

from ...core.principal import Principal
from .scopes import Hierarchy, scopes_of

FOREVER: Final = 1e15
"""Seconds since the epoch: upper bound of times in tokens."""


class TokenRefused(Exception):
    """The token is not accepted. The message says why."""

    kind = "invalid_token"


class TokenExpired(TokenRefused):
    """The token has expired."""

    kind = "token_expired"


class ExpectedClaims(Struct, frozen=True, eq=False):
    """The expected values of claims."""

    issuer: str | None
    audience: str
    exclusive: bool = False
    """Whether other audiences are forbidden."""
    implied: Hierarchy = Hierarchy()


def principal_of(
    claims: Mapping[str, Any], expected: ExpectedClaims, now: float, *, signed: bool
) -> Principal:
    """Return the principal of a token. ``signed`` tokens must contain all claims; others were introspected.

    Raises:
        TokenRefused: issuer, audience, time or another claim is not accepted.
    """
    issuer = _text(claims, "iss", needed=signed)
    if issuer is not None and expected.issuer is not None and issuer != expected.issuer:
        # RFC 9207, 2.4: plain string comparison, no normalisation.
        raise TokenRefused("the issuer of the token (iss) is not accepted")
    _check_audience(claims.get("aud"), expected)
    _check_time(claims, now, needed=signed)
    client = _text(claims, "client_id") or _text(claims, "azp")
    subject = _text(claims, "sub", needed=signed) or client
    if not subject:
        raise TokenRefused("the token names no subject (sub)")
    _check_binding(claims.get("cnf"))
    return Principal(
        subject, issuer or expected.issuer, expected.implied.expand(_scopes(claims)), dict(claims), client
    )


def _check_binding(found: Any) -> None:
    """Check the binding of a token. RFC 7800, 3.1: an unknown confirmation method must be refused."""
    if found is None:
        return
    members = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    if "x5t#S256" in members:
        raise TokenRefused(
            "the token is bound to a client certificate (cnf, x5t#S256), which is not verified here"
        )
    if set(members) != {"jkt"} or not isinstance(members["jkt"], str):
        raise TokenRefused("the confirmation method of the token (cnf) is not supported")


def _text(claims: Mapping[str, Any], name: str, *, needed: bool = False) -> str | None:
    value = claims.get(name)
    if value is None and not needed:
        return None
    if value is None:
        raise TokenRefused(f"the token has no claim {name}")
    if not isinstance(value, str) or not value:
        raise TokenRefused(f"the claim {name} of the token is not a string")
    return value


def _check_audience(found: Any, expected: ExpectedClaims) -> None:
    # Authorization, Token Handling: MCP servers MUST validate that tokens were issued specifically for them.
    if found is None:
        raise TokenRefused("the token has no claim aud")
    audiences = cast("list[Any]", found) if isinstance(found, list) else [found]
    if not all(isinstance(one, str) for one in audiences):
        raise TokenRefused("the claim aud of the token is neither a string nor a list of strings")
    if expected.audience not in audiences:
        raise TokenRefused("the audience of the token (aud) is not this server")
    if expected.exclusive and any(one != expected.audience for one in audiences):
        raise TokenRefused("the token has further audiences (aud)")


def _check_time(claims: Mapping[str, Any], now: float, *, needed: bool) -> None:
    moments: dict[str, float] = {}
    for name in ("exp", "nbf", "iat"):
        value = claims.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < FOREVER:
            raise TokenRefused(f"the claim {name} of the token is not a valid time")
        moments[name] = value
    if "exp" not in moments and needed:
        raise TokenRefused("the token has no claim exp")
    if moments.get("exp", math.inf) <= now:
        raise TokenExpired("the token has expired")
    if moments.get("nbf", -math.inf) > now:
        raise TokenRefused("the token is not valid yet (nbf)")


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    for name in ("scope", "scp"):
        value = claims.get(name)
        words = cast("list[Any]", value) if isinstance(value, list) else ["" if value is None else value]
        if not all(isinstance(one, str) for one in words):
            raise TokenRefused(f"the claim {name} of the token is neither a string nor a list of strings")
    return scopes_of(claims)
