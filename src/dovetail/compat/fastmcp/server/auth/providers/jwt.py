"""Tokens that are signed (JWT), and tokens that are simply known."""

from __future__ import annotations

import base64
import logging
import time
from dataclasses import dataclass
from typing import Any, Final, TypedDict, cast

import msgspec

from ......auth.server.keys import FetchedKeys, Key, payload_of

# isort: split
# Behind the keys, which say what to install where joserfc is missing.
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OctKey, RSAKey
from joserfc.jwt import encode
from pydantic import SecretStr

from ......auth.server.verifier import Unavailable
from ..access import AccessToken
from ..auth import TokenVerifier
from ..configuring import configured

log = logging.getLogger("fastmcp")
_KINDS: Final = {"RS": RSAKey, "PS": RSAKey, "ES": ECKey, "HS": OctKey}
_ALGORITHMS: Final = frozenset(f"{kind}{size}" for kind in _KINDS for size in (256, 384, 512))


class JWKData(TypedDict, total=False):
    """One key of a set."""

    kty: str
    kid: str
    use: str
    alg: str
    n: str
    e: str
    x5c: list[str]
    x5t: str


class JWKSData(TypedDict):
    """A set of keys."""

    keys: list[JWKData]


@dataclass(frozen=True, kw_only=True, repr=False)
class RSAKeyPair:
    """A key to sign tokens with. For development."""

    private_key: SecretStr
    public_key: str

    @classmethod
    def generate(cls) -> RSAKeyPair:
        key = RSAKey.generate_key(2048, private=True)
        return cls(
            private_key=SecretStr(key.as_pem(private=True).decode()),
            public_key=key.as_pem(private=False).decode(),
        )

    def create_token(
        self, subject: str = "fastmcp-user", issuer: str = "https://fastmcp.example.com",
        audience: str | list[str] | None = None, scopes: list[str] | None = None,
        expires_in_seconds: int = 3600, additional_claims: dict[str, Any] | None = None,
        kid: str | None = None,
    ) -> str:  # fmt: skip
        """A token of ``subject``, signed."""
        now = int(time.time())
        claims: dict[str, Any] = {
            "sub": subject, "iss": issuer, "iat": now, "exp": now + expires_in_seconds, "aud": audience or None,
            "scope": " ".join(scopes or ()) or None, **(additional_claims or {}),
        }  # fmt: skip
        header = {"alg": "RS256", "kid": kid} if kid else {"alg": "RS256"}
        said = {name: value for name, value in claims.items() if value is not None}
        return encode(header, said, RSAKey.import_key(self.private_key.get_secret_value()))


class JWTVerifier(TokenVerifier):
    """Accepts tokens signed with a key, or with one of a key set; issuer and audience are checked where given."""

    @configured("JWT")
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
        if self.algorithm not in _ALGORITHMS:
            raise ValueError(f"Unsupported algorithm: {self.algorithm}.")
        self.issuer, self.audience = issuer, audience
        self.public_key, self.jwks_uri = public_key, jwks_uri
        self._key: Key | None = None
        self._fetched = None if jwks_uri is None else FetchedKeys(jwks_uri, jwks_uri, time.time, lambda: None)

    async def verify_token(self, token: str) -> Any:
        header, claims = _parts(token)
        if header.get("alg") != self.algorithm or not await self._signed(token, header.get("kid")):
            return None
        scopes = scopes_in(claims)
        expires = claims.get("exp")
        good = (
            (not expires or (isinstance(expires, int | float) and expires >= time.time()))
            and _agreed(claims.get("iss"), self.issuer)
            and _agreed(claims.get("aud"), self.audience)
            and set(self.required_scopes) <= set(scopes)
        )
        if not good:
            return None
        client = claims.get("client_id") or claims.get("azp") or claims.get("sub") or "unknown"
        expires_at = int(expires) if expires else None
        return AccessToken(
            token=token, client_id=str(client), scopes=scopes, expires_at=expires_at, claims=claims
        )

    async def _signed(self, token: str, kid: Any) -> bool:
        try:
            keys = [self._given()] if self._fetched is None else await self._fetched.find(self.algorithm, kid)
        except (Unavailable, JoseError, ValueError) as error:
            log.debug("there is no key to verify a token with: %s", error)
            return False
        # As theirs: a token that names no key is only accepted where there is one.
        return len(keys) == 1 and payload_of(token, keys[0], self.algorithm) is not None

    def _given(self) -> Key:
        if self._key is None:
            self._key = _KINDS[self.algorithm[:2]].import_key(cast("str", self.public_key))
        return self._key

    async def load_access_token(self, token: str) -> Any:
        return await self.verify_token(token)


def _agreed(said: Any, wanted: str | list[str] | None) -> bool:
    """Whether what a token says is wanted, as far as anything is."""
    if not wanted:
        return True
    given = cast("list[Any]", said) if isinstance(said, list) else [said]
    return any(one in given for one in ([wanted] if isinstance(wanted, str) else wanted))


def _parts(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What stands in a token, nothing of it verified."""
    try:
        header, claims, _ = token.split(".")
        return _decoded(header), _decoded(claims)
    except ValueError:
        return {}, {}


def _decoded(part: str) -> dict[str, Any]:
    text = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    return msgspec.json.decode(text, type=dict[str, Any])


def scopes_in(claims: dict[str, Any]) -> list[str]:
    """The scopes that a token has."""
    for name in ("scope", "scp"):
        said = claims.get(name)
        if isinstance(said, str | list):
            return said.split() if isinstance(said, str) else cast("list[str]", said)
    return []


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
