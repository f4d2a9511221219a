"""Who may call a gateway over HTTP, as a file or a command line says it.

The member ``auth`` beside the servers of a file: ``issuer`` and ``audience`` (with ``jwks_uri``, ``algorithms``,
``exclusive``) for tokens that are checked here, ``introspection`` for those the authorization server is asked about,
``tokens`` for a few that never change: ``{"ann": "${ANN_TOKEN}"}``, or with scopes
``{"ann": {"token": "${ANN_TOKEN}", "scopes": ["read"]}}``. ``scopes`` are those that everybody needs.
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


class _Token(Struct, frozen=True, forbid_unknown_fields=True):
    token: str
    scopes: list[str] = []


class _Introspection(Struct, frozen=True, forbid_unknown_fields=True):
    endpoint: str
    client_id: str
    client_secret: str


class _Callers(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    issuer: str | None = None
    audience: str | None = None
    jwks_uri: str | None = None
    algorithms: list[str] | None = None
    exclusive: bool = False
    introspection: _Introspection | None = None
    tokens: dict[str, str | _Token] = {}
    scopes: list[str] = []

    def __repr__(self) -> str:
        return "_Callers(…)"  # there are secrets in it


def read_callers(source: str | os.PathLike[str] | Mapping[str, Any]) -> Verifier | None:
    """Who proves the callers of a file's gateway; None where everybody may call.

    Raises:
        ConfigError: the member ``auth`` cannot be used.
    """
    found, where = loaded(source)
    wish: Any = cast("Mapping[str, Any]", found).get("auth") if isinstance(found, Mapping) else None
    if wish is None:
        return None
    place = f"{where}: auth"
    try:
        return _verifier(msgspec.convert(with_variables(wish, place), _Callers))
    except (msgspec.ValidationError, ValueError) as error:
        raise ConfigError(f"{place}: {error}") from None
    except DovetailError as error:
        raise ConfigError(f"{place}: {error.message}") from None


def jwt_callers(issuer: str | None, audience: str | None, jwks_uri: str | None) -> Verifier | None:
    """The same for the options of a command line.

    Raises:
        ValueError: one of them is missing, or cannot be used.
    """
    if issuer is None and audience is None and jwks_uri is None:
        return None
    return _verifier(_Callers(issuer=issuer, audience=audience, jwks_uri=jwks_uri))


def _verifier(callers: _Callers) -> Verifier:
    found: list[Verifier] = []
    scopes, audience = callers.scopes, callers.audience or None  # a variable may be empty
    if callers.introspection is not None:
        if audience is None:
            raise ValueError("introspection needs the audience, this gateway's own URL")
        asked = msgspec.structs.asdict(callers.introspection)
        found.append(
            IntrospectionVerifier(
                **asked, audience=audience, issuer=callers.issuer, exclusive=callers.exclusive, scopes=scopes
            )
        )
    elif callers.issuer is not None and audience is not None:
        from ..auth.server.jwt import JwtVerifier  # most gateways, and all inspectors, verify nothing

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
        raise ValueError("it needs the issuer and the audience, which is this gateway's own URL")
    if callers.tokens:
        found.append(StaticTokens(_static(callers.tokens), scopes=scopes, audience=audience))
    return found[0] if len(found) == 1 else AnyOf(*found)


def _static(tokens: Mapping[str, str | _Token]) -> dict[str, Principal | str]:
    known: dict[str, Principal | str] = {}
    for subject, given in tokens.items():
        one = _Token(given) if isinstance(given, str) else given
        if one.token.split() != [one.token] or not subject or one.token in known:
            raise ValueError(f"the token of {subject!r} is empty, has spaces, or somebody else has it")
        known[one.token] = Principal(subject, scopes=frozenset(one.scopes))
    return known
