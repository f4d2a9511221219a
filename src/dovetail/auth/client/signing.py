"""Keys and signatures, with joserfc (extra ``auth``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ...extras import missing
from ..core.pkce import base64url

try:
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, OKPKey, RSAKey
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] not in ("joserfc", "cryptography"):
        raise
    raise missing("joserfc", "signing tokens") from None

Key = ECKey | RSAKey | OKPKey

_KINDS: dict[str, type[ECKey] | type[RSAKey] | type[OKPKey]] = {
    "ES256": ECKey, "ES384": ECKey, "ES512": ECKey, "EdDSA": OKPKey, "Ed25519": OKPKey,
    "RS256": RSAKey, "RS384": RSAKey, "RS512": RSAKey, "PS256": RSAKey, "PS384": RSAKey, "PS512": RSAKey,
}  # fmt: skip
_CURVES: dict[str, Literal["P-256", "P-384", "P-521"]] = {
    "ES256": "P-256",
    "ES384": "P-384",
    "ES512": "P-521",
}


class KeySigner:
    """Signs with a private key.

    Raises:
        ValueError: the algorithm is not supported, or the key does not fit it.
    """

    def __init__(self, key: Key, algorithm: str) -> None:
        self.key = key
        self.algorithm = algorithm

    @classmethod
    def of_pem(cls, pem: str | bytes, algorithm: str) -> KeySigner:
        kind = _kind(algorithm)
        try:
            key = kind.import_key(pem)
        except (JoseError, ValueError, TypeError):
            raise ValueError(f"private_key is not a PEM key for {algorithm}") from None
        if not key.is_private:
            raise ValueError("private_key contains a public key only")
        return cls(key, algorithm)

    @classmethod
    def made_for(cls, algorithm: str) -> KeySigner:
        """Create a new key."""
        kind = _kind(algorithm)
        if kind is RSAKey:
            return cls(RSAKey.generate_key(2048), algorithm)
        if kind is OKPKey:
            return cls(OKPKey.generate_key("Ed25519"), algorithm)
        return cls(ECKey.generate_key(_CURVES[algorithm]), algorithm)

    @classmethod
    def of_jwk(cls, jwk: dict[str, Any], algorithm: str) -> KeySigner:
        return cls(_kind(algorithm).import_key(jwk), algorithm)

    def sign(self, claims: Mapping[str, Any], header: Mapping[str, Any] | None = None) -> str:
        whole = {"alg": self.algorithm, "typ": "JWT", **(header or {})}
        return jwt.encode(whole, dict(claims), self.key, algorithms=[self.algorithm])

    @property
    def public(self) -> dict[str, Any]:
        """Return the public part as a JWK."""
        return dict(self.key.as_dict(private=False))

    @property
    def private(self) -> dict[str, Any]:
        return dict(self.key.as_dict(private=True))

    @property
    def thumbprint(self) -> str:
        """Return the JWK thumbprint (RFC 7638)."""
        return self.key.thumbprint()


def digest(token: str) -> str:
    """Return the token hash for a DPoP proof (RFC 9449, ``ath``)."""
    import hashlib

    return base64url(hashlib.sha256(token.encode()).digest())


def _kind(algorithm: str) -> type[ECKey] | type[RSAKey] | type[OKPKey]:
    if algorithm not in _KINDS:
        raise ValueError(f"algorithm must be one of {', '.join(_KINDS)}; not {algorithm!r}")
    return _KINDS[algorithm]
