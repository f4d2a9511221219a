"""Validation of DPoP proofs (RFC 9449, SEP-1932) for tokens bound to a key."""

from __future__ import annotations

import hashlib
import hmac
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Collection
from typing import Any, Final, cast
from urllib.parse import urlsplit

import msgspec

from ...core.principal import Principal
from ...errors import ProtocolError
from ...stores.base import Store, StoreError
from ...wire.seal import Seal
from ..core.oauth_urls import origin_of
from ..core.pkce import base64url
from .verifier import InvalidToken, Unavailable

PROOF_SECONDS: Final = 300.0
"""Seconds that the ``iat`` of a DPoP proof may differ from the server's time (SEP-1932)."""
PROOF_NONCE_SECONDS: Final = 300.0
"""Lifetime of a nonce of the server in seconds."""
PROOF_SIZE: Final = 8 << 10
"""Characters of a proof."""
PROOFS_KEPT: Final = 500_000
"""Remembered proofs; only those with a valid token are remembered."""


ALGORITHMS: Final = (
    "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512", "EdDSA", "Ed25519",
)  # fmt: skip
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "k"})


class InvalidProof(InvalidToken):
    """The DPoP proof is not valid."""


class MissingNonce(InvalidProof):
    """The proof has no nonce of this server, or an expired one. The challenge contains a new one (RFC 9449,
    9).
    """


class DpopValidator:
    """The proofs seen by one server. Each is accepted once within its lifetime (replay protection).

    With a ``store``, all processes that share it remember proofs together. With ``nonces``, each proof needs
    a nonce sealed with them; processes with the same keys accept each other's.
    """

    def __init__(
        self,
        store: Store | None = None,
        clock: Callable[[], float] = time.time,
        nonces: Seal | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._nonces = nonces
        self._seen: dict[bytes, float] = {}

    async def check(
        self, proof: str | None, token: str, principal: Principal, method: str, places: Collection[str]
    ) -> None:
        """Check that ``proof`` allows ``principal`` to use ``token`` for a ``method`` request to one of
        ``places``.

        Raises:
            InvalidToken: the token is not bound to a key.
            InvalidProof: the proof is not valid; the message says why.
            Unavailable: it cannot be checked now.
        """
        bound = principal.claims.get("cnf")
        if bound is None:
            raise InvalidToken("the token is not bound to a key (cnf); send it as Bearer")
        if not proof or len(proof) > PROOF_SIZE:
            raise InvalidProof("a token bound to a key requires a proof in the header DPoP")
        header = _read(proof.partition(".")[0])
        claims = self._signed(proof, header, cast("dict[str, Any]", bound)["jkt"])
        digest = base64url(hashlib.sha256(token.encode()).digest())
        if not hmac.compare_digest(_text(claims, "ath"), digest):
            raise InvalidProof("DPoP proof rejected: ath does not match the token")
        if _text(claims, "htm") != method:
            raise InvalidProof("DPoP proof rejected: htm does not match the method")
        if _place(_text(claims, "htu")) not in {_place(place) for place in places}:
            raise InvalidProof("DPoP proof rejected: htu does not match the URL")
        self._check_nonce(claims)
        await self._once(claims, bound)

    def nonce(self) -> str | None:
        """Return a new nonce for the client's next proof; None if proofs need none."""
        if self._nonces is None:
            return None
        return self._nonces.seal("dpop", b"", expires=self._clock() + PROOF_NONCE_SECONDS)

    def _check_nonce(self, claims: dict[str, Any]) -> None:
        if self._nonces is None:
            return
        nonce = claims.get("nonce")
        if not isinstance(nonce, str):
            raise MissingNonce("the DPoP proof has no nonce of this server: use the one in DPoP-Nonce")
        try:
            self._nonces.open("dpop", nonce, now=self._clock())
        except ProtocolError:
            raise MissingNonce(
                "the nonce of the DPoP proof is unknown or has expired: use the one in DPoP-Nonce"
            ) from None

    def _signed(self, proof: str, header: dict[str, Any], thumbprint: str) -> dict[str, Any]:
        """Return the claims of a proof signed with the key that the token is bound to."""
        from .keys import import_key, kty_of, payload_of  # imported only for bound tokens

        algorithm, jwk = header.get("alg"), header.get("jwk")
        if header.get("typ") != "dpop+jwt" or algorithm not in ALGORITHMS or "crit" in header:
            raise InvalidProof("DPoP proof rejected: typ is not dpop+jwt, or the algorithm is not accepted")
        if not isinstance(jwk, dict) or _PRIVATE & set(cast("dict[str, Any]", jwk)):
            raise InvalidProof("DPoP proof rejected: the header has no public key (jwk)")
        key = import_key(cast("dict[str, Any]", jwk))
        if key is None or cast("dict[str, Any]", jwk).get("kty") != kty_of(algorithm):
            raise InvalidProof("DPoP proof rejected: the key does not fit the algorithm")
        if not hmac.compare_digest(key.thumbprint().encode(), thumbprint.encode()):
            raise InvalidProof("DPoP proof rejected: the key is not the one that the token is bound to (jkt)")
        payload = payload_of(proof, key, algorithm)
        if payload is None:
            raise InvalidProof("DPoP proof rejected: the signature is not valid")
        return _decoded(payload)

    async def _once(self, claims: dict[str, Any], bound: Any) -> None:
        now, made = self._clock(), claims.get("iat")
        if isinstance(made, bool) or not isinstance(made, int | float):
            raise InvalidProof("DPoP proof rejected: iat is missing")
        if not abs(now - made) <= PROOF_SECONDS:
            raise InvalidProof(
                f"DPoP proof rejected: iat is outside the accepted window of {PROOF_SECONDS:g} s; check the clock"
            )
        name = hashlib.blake2b(msgspec.json.encode((bound, _text(claims, "jti"))), digest_size=16).digest()
        seen = self._seen
        while seen and (seen[first := next(iter(seen))] < now or len(seen) >= PROOFS_KEPT):
            del seen[first]
        first = name not in seen
        seen[name] = now + (lifetime := 2 * PROOF_SECONDS)  # a proof may have a time in the future
        if first and self._store is not None:
            try:
                first = await self._store.put(f"proofs/{name.hex()}", b"", ttl=lifetime, only_new=True)
            except StoreError:
                raise Unavailable("the replay check of the DPoP proof is unavailable") from None
        if not first:
            raise InvalidProof("DPoP proof rejected: jti was already used")


def _read(part: str) -> dict[str, Any]:
    try:
        return _decoded(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except ValueError:
        raise InvalidProof("DPoP proof rejected: it is malformed") from None


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (ValueError, RecursionError):
        raise InvalidProof("DPoP proof rejected: it is malformed") from None


def _text(claims: dict[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value or not value.isascii():
        raise InvalidProof(f"DPoP proof rejected: {name} is missing")
    return value


def _place(url: str) -> tuple[object, str] | None:
    """Return a URL for comparison (RFC 9449, 4.3): normalized, without query and fragment."""
    try:
        parts = urlsplit(url)
        return origin_of(parts), parts.path or "/"
    except ValueError:
        return None
