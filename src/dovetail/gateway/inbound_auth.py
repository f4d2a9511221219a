"""Authentication of callers of a gateway over HTTP, configured in its file or on the command line.

The member ``auth`` of the file contains ``issuer`` and ``audience`` (with ``jwks_uri``, ``algorithms``,
``exclusive``) for JWTs, ``introspection`` for opaque tokens, or ``tokens`` for static ones: ``{"ann":
"${ANN_TOKEN}"}``, or with scopes ``{"ann": {"token": "${ANN_TOKEN}", "scopes": ["read"]}}``. ``scopes`` are
required of every caller.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct

from ..auth.server.introspection import IntrospectionVerifier
from ..auth.server.static_tokens import StaticTokens
from ..auth.server.verifier import AnyOf, Verifier
from ..core.principal import Principal
from ..errors import DovetailError
from .gateway_config import ConfigError, loaded, with_variables


class _StaticToken(Struct, frozen=True, forbid_unknown_fields=True):
    token: str
    scopes: list[str] = []


class _Introspection(Struct, frozen=True, forbid_unknown_fields=True):
    endpoint: str
    client_id: str
    client_secret: str


class _InboundAuth(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    issuer: str | None = None
    audience: str | None = None
    jwks_uri: str | None = None
    algorithms: list[str] | None = None
    exclusive: bool = False
    introspection: _Introspection | None = None
    tokens: dict[str, str | _StaticToken] = {}
    scopes: list[str] = []

    def __repr__(self) -> str:
        return "_InboundAuth(…)"  # contains secrets


def read_callers(source: str | os.PathLike[str] | Mapping[str, Any]) -> Verifier | None:
    """Return the verifier configured in a file, or None if the gateway is open.

    Raises:
        ConfigError: the member ``auth`` is not valid.
    """
    found, where = loaded(source)
    wish: Any = cast("Mapping[str, Any]", found).get("auth") if isinstance(found, Mapping) else None
    if wish is None:
        return None
    place = f"{where}: auth"
    try:
        return _verifier(msgspec.convert(with_variables(wish, place), _InboundAuth))
    except (msgspec.ValidationError, ValueError) as error:
        raise ConfigError(f"{place}: {error}") from None
    except DovetailError as error:
        raise ConfigError(f"{place}: {error.message}") from None


def jwt_callers(issuer: str | None, audience: str | None, jwks_uri: str | None) -> Verifier | None:
    """Return the verifier for command-line options.

    Raises:
        ValueError: an option is missing or not valid.
    """
    if issuer is None and audience is None and jwks_uri is None:
        return None
    return _verifier(_InboundAuth(issuer=issuer, audience=audience, jwks_uri=jwks_uri))


def _verifier(callers: _InboundAuth) -> Verifier:
    found: list[Verifier] = []
    scopes, audience = callers.scopes, callers.audience or None  # a variable may be empty
    if callers.introspection is not None:
        if audience is None:
            raise ValueError("introspection needs the audience: the URL of this gateway")
        asked = msgspec.structs.asdict(callers.introspection)
        found.append(
            IntrospectionVerifier(
                **asked, audience=audience, issuer=callers.issuer, exclusive=callers.exclusive, scopes=scopes
            )
        )
    elif callers.issuer is not None and audience is not None:
        from ..auth.server.jwt import JwtVerifier  # imported only if needed

        found.append(
            JwtVerifier(
                issuer=callers.issuer,
                audience=audience,
                jwks_uri=callers.jwks_uri,
                algorithms=callers.algorithms,
                exclusive=callers.exclusive,
                scopes=scopes,
            )
        )
    elif callers.issuer is not None or callers.jwks_uri is not None or not callers.tokens:
        raise ValueError("auth needs the issuer and the audience (the URL of this gateway)")
    if callers.tokens:
        found.append(StaticTokens(_static(callers.tokens), scopes=scopes, audience=audience))
    return found[0] if len(found) == 1 else AnyOf(*found)


def _static(tokens: Mapping[str, str | _StaticToken]) -> dict[str, Principal | str]:
    known: dict[str, Principal | str] = {}
    for subject, given in tokens.items():
        one = _StaticToken(given) if isinstance(given, str) else given
        if one.token.split() != [one.token] or not subject or one.token in known:
            raise ValueError(f"the token of {subject!r} is empty, contains spaces, or is used twice")
        known[one.token] = Principal(subject, scopes=frozenset(one.scopes))
    return known
