"""What a verified token says, and whether that lets anybody in (RFC 9068, RFC 7662, RFC 8707).

Every claim we rely on has to be there and of its type; each refusal has its own reason and holds nothing of the token.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, cast

from msgspec import Struct

from ...core.principal import Principal
from .scopes import Hierarchy, scopes_of

FOREVER: Final = 1e15
"""Seconds since the epoch; no token says anything about a later moment."""


class Refused(Exception):
    """The token is not accepted; the text says why."""

    kind = "invalid_token"


class TokenExpired(Refused):
    """The token was good before."""

    kind = "token_expired"


class Expected(Struct, frozen=True, eq=False):
    """What tokens have to say."""

    issuer: str | None
    audience: str
    exclusive: bool = False
    """No other audience may stand beside ours."""
    implied: Hierarchy = Hierarchy()


def principal_of(claims: Mapping[str, Any], expected: Expected, now: float, *, signed: bool) -> Principal:
    """Who a token belongs to. ``signed`` ones bring everything with them; of others a server was asked.

    Raises:
        Refused: it is not for us, not from whom we trust, not of now, or cannot be understood.
    """
    issuer = _text(claims, "iss", needed=signed)
    if issuer is not None and expected.issuer is not None and issuer != expected.issuer:
        # RFC 9207, 2.4: plain string comparison, no normalisation.
        raise Refused("the token is of another issuer")
    _check_audience(claims.get("aud"), expected)
    _check_time(claims, now, needed=signed)
    client = _text(claims, "client_id") or _text(claims, "azp")
    subject = _text(claims, "sub", needed=signed) or client
    if not subject:
        raise Refused("the token names no subject (sub)")
    _check_binding(claims.get("cnf"))
    return Principal(
        subject, issuer or expected.issuer, expected.implied.expand(_scopes(claims)), dict(claims), client
    )


def _check_binding(found: Any) -> None:
    """RFC 7800, 3.1: who has such a token has to prove something; what that is must be understood."""
    if found is None:
        return
    members = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    if "x5t#S256" in members:
        raise Refused(
            "the token is bound to a client certificate (cnf, x5t#S256), which is not verified here"
        )
    if set(members) != {"jkt"} or not isinstance(members["jkt"], str):
        raise Refused("the token is bound to something (cnf) that is not verified here")


def _text(claims: Mapping[str, Any], name: str, *, needed: bool = False) -> str | None:
    value = claims.get(name)
    if value is None and not needed:
        return None
    if value is None:
        raise Refused(f"the token has no claim {name}")
    if not isinstance(value, str) or not value:
        raise Refused(f"the claim {name} of the token is not a text")
    return value


def _check_audience(found: Any, expected: Expected) -> None:
    # Authorization, Token Handling: MCP servers MUST validate that tokens were issued specifically for them.
    if found is None:
        raise Refused("the token has no claim aud")
    audiences = cast("list[Any]", found) if isinstance(found, list) else [found]
    if not all(isinstance(one, str) for one in audiences):
        raise Refused("the claim aud of the token is neither a text nor a list of texts")
    if expected.audience not in audiences:
        raise Refused("the token is for another audience")
    if expected.exclusive and any(one != expected.audience for one in audiences):
        raise Refused("the token is for other audiences too")


def _check_time(claims: Mapping[str, Any], now: float, *, needed: bool) -> None:
    moments: dict[str, float] = {}
    for name in ("exp", "nbf", "iat"):
        value = claims.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < FOREVER:
            raise Refused(f"the claim {name} of the token is not a moment")
        moments[name] = value
    if "exp" not in moments and needed:
        raise Refused("the token has no claim exp")
    if moments.get("exp", math.inf) <= now:
        raise TokenExpired("the token has expired")
    if moments.get("nbf", -math.inf) > now:
        raise Refused("the token is not valid yet (nbf)")


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    for name in ("scope", "scp"):
        value = claims.get(name)
        words = cast("list[Any]", value) if isinstance(value, list) else ["" if value is None else value]
        if not all(isinstance(one, str) for one in words):
            raise Refused(f"the claim {name} of the token is neither a text nor a list of texts")
    return scopes_of(claims)
