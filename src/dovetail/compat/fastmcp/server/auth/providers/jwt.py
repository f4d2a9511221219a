"""Tokens that are signed (JWT), and tokens that are simply known."""

from __future__ import annotations

import base64
import logging
import time
from collections import OrderedDict
from typing import Any, Final, cast

import msgspec
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from ......auth.server.jwt import JwtVerifier
from ......auth.server.verifier import InvalidToken
from ......core.principal import Principal
from ..access import AccessToken
from ..auth import TokenVerifier

log = logging.getLogger("fastmcp")
_KINDS: Final = {"RS": RSAKey, "PS": RSAKey, "ES": ECKey, "HS": OctKey, "Ed": OKPKey}
_KEPT: Final = 32
"""Pairs of issuer and audience a verifier is kept for."""


class JWTVerifier(TokenVerifier):
    """Accepts tokens signed with a key, or with one of a key set; issuer and audience are checked where given."""

    def __init__(
        self, *, public_key: str | None = None, jwks_uri: str | None = None,
        issuer: str | list[str] | None = None, audience: str | list[str] | None = None,
        algorithm: str | None = None, required_scopes: list[str] | None = None, base_url: Any = None,
        ssrf_safe: bool = False, http_client: Any = None, jwks_refresh_interval: float | None = None,
    ) -> None:  # fmt: skip
        if ssrf_safe:
            raise ValueError("ssrf_safe= cannot be honoured: jwks_uri is asked wherever it leads")
        for word, given in (("http_client", http_client), ("jwks_refresh_interval", jwks_refresh_interval)):
            if given is not None:
                log.info("JWTVerifier(%s=…) makes no difference here: keys are fetched by ours", word)
        if not public_key and not jwks_uri:
            raise ValueError("Either public_key or jwks_uri must be provided")
        if public_key and jwks_uri:
            raise ValueError("Provide either public_key or jwks_uri, not both")
        super().__init__(base_url, required_scopes)
        self.algorithm = algorithm or "RS256"
        self.issuer, self.audience, self.jwks_uri = issuer, audience, jwks_uri
        self._keys = None if public_key is None else _key_set(public_key, self.algorithm)
        self._verifiers: OrderedDict[tuple[str, str], JwtVerifier] = OrderedDict()

    async def verify_token(self, token: str) -> Any:
        claims = _claims(token)
        issuer = _agreed(claims.get("iss"), self.issuer)
        audience = _agreed(claims.get("aud"), self.audience)
        if issuer is None or audience is None:
            return None
        try:
            principal = await self._verifier(issuer, audience).verify(token, {})
        except (InvalidToken, ValueError):
            return None
        return None if principal is None else _access_token(token, principal)

    def _verifier(self, issuer: str, audience: str) -> JwtVerifier:
        """Ours wants to know both; where an author has not said them, those of the token are what is checked."""
        key = issuer, audience
        found = self._verifiers.pop(key, None) or JwtVerifier(
            issuer=issuer,
            audience=audience,
            keys=self._keys,
            jwks_uri=self.jwks_uri,
            algorithms=[self.algorithm],
        )
        self._verifiers[key] = found
        if len(self._verifiers) > _KEPT:
            self._verifiers.popitem(last=False)
        return found

    async def load_access_token(self, token: str) -> Any:
        return await self.verify_token(token)


def _agreed(said: Any, wanted: str | list[str] | None) -> str | None:
    """What a token says, if that is wanted; None when it is not."""
    given = cast("list[Any]", said) if isinstance(said, list) else [said]
    allowed = None if wanted is None else [wanted] if isinstance(wanted, str) else wanted
    fitting = [one for one in given if isinstance(one, str) and (allowed is None or one in allowed)]
    return fitting[0] if fitting else None


def _claims(token: str) -> dict[str, Any]:
    """What stands in a token, nothing of it verified."""
    try:
        part = token.split(".")[1]
        return msgspec.json.decode(
            base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)), type=dict[str, Any]
        )
    except (IndexError, ValueError):
        return {}


def _key_set(key: str, algorithm: str) -> dict[str, Any]:
    kind = _KINDS[algorithm[:2]]
    return {"keys": [kind.import_key(key).as_dict(private=kind is OctKey)]}


def _access_token(token: str, principal: Principal) -> AccessToken:
    claims = dict(principal.claims)
    client = claims.get("client_id") or claims.get("azp") or claims.get("sub") or "unknown"
    expires = principal.expires
    return AccessToken(
        token=token, client_id=str(client), scopes=sorted(principal.scopes), subject=principal.subject,
        expires_at=None if expires is None else int(expires), claims=claims,
    )  # fmt: skip


class StaticTokenVerifier(TokenVerifier):
    """Accepts tokens that are written down. For development."""

    def __init__(self, tokens: dict[str, dict[str, Any]], required_scopes: list[str] | None = None) -> None:
        super().__init__(None, required_scopes)
        self.tokens = tokens

    async def verify_token(self, token: str) -> Any:
        known = self.tokens.get(token)
        if known is None or (known.get("expires_at") is not None and known["expires_at"] < time.time()):
            return None
        scopes = known.get("scopes", [])
        if not set(self.required_scopes) <= set(scopes):
            return None
        return AccessToken(
            token=token,
            client_id=known["client_id"],
            scopes=scopes,
            expires_at=known.get("expires_at"),
            claims=known,
        )
