"""Proofs of possession (RFC 9449, SEP-1932): a token that is bound to a key comes with a proof made for its request."""

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
"""Seconds by which the ``iat`` of a DPoP proof may be before or after the server's time (SEP-1932)."""
PROOF_NONCE_SECONDS: Final = 300.0
"""Seconds for which a nonce of the server is accepted in DPoP proofs."""
PROOF_SIZE: Final = 8 << 10
"""Characters of a proof."""
PROOFS_KEPT: Final = 500_000
"""Proofs that are remembered; only those of callers with a good token are."""


ALGORITHMS: Final = (
    "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512", "EdDSA", "Ed25519",
)  # fmt: skip
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "k"})


class InvalidProof(InvalidToken):
    """The token may be good; that the caller may use it is not proved."""


class MissingNonce(InvalidProof):
    """The proof has no nonce of this server, or an old one. The challenge brings a new one (RFC 9449, 9)."""


class Proofs:
    """The proofs of one server. Each is good once; what was seen is remembered for as long as it could come again.

    With a ``store`` all processes that share it remember together. With ``nonces`` each proof must have a nonce that
    was sealed with them; processes that share the keys accept each other's.
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
        """Whether ``proof`` lets ``principal`` use ``token`` for a request by ``method`` to one of ``places``.

        Raises:
            InvalidToken: the token is bound to no key, so that nothing can be proved.
            InvalidProof: it does not; the text says why.
            Unavailable: that cannot be told now.
        """
        bound = principal.claims.get("cnf")
        if bound is None:
            raise InvalidToken("the token is bound to no key (cnf): send it as Bearer")
        if not proof or len(proof) > PROOF_SIZE:
            raise InvalidProof("a token that is bound to a key needs a proof, in the header DPoP")
        header = _read(proof.partition(".")[0])
        claims = self._signed(proof, header, cast("dict[str, Any]", bound)["jkt"])
        digest = base64url(hashlib.sha256(token.encode()).digest())
        if not hmac.compare_digest(_text(claims, "ath"), digest):
            raise InvalidProof("the proof is for another token (ath)")
        if _text(claims, "htm") != method:
            raise InvalidProof("the proof is for another method (htm)")
        if _place(_text(claims, "htu")) not in {_place(place) for place in places}:
            raise InvalidProof("the proof is for another URL (htu)")
        self._check_nonce(claims)
        await self._once(claims, bound)

    def nonce(self) -> str | None:
        """A new nonce for the next proof of a client; None where proofs need none."""
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
        """The claims of a proof whose signature is that of the key which the token is bound to."""
        from .keys import import_key, kty_of, payload_of  # only who has bound tokens needs its extra

        algorithm, jwk = header.get("alg"), header.get("jwk")
        if header.get("typ") != "dpop+jwt" or algorithm not in ALGORITHMS or "crit" in header:
            raise InvalidProof("the proof is no DPoP proof with an algorithm that is accepted")
        if not isinstance(jwk, dict) or _PRIVATE & set(cast("dict[str, Any]", jwk)):
            raise InvalidProof("the proof has no public key (jwk)")
        key = import_key(cast("dict[str, Any]", jwk))
        if key is None or cast("dict[str, Any]", jwk).get("kty") != kty_of(algorithm):
            raise InvalidProof("the key of the proof is none for its algorithm")
        if not hmac.compare_digest(key.thumbprint().encode(), thumbprint.encode()):
            raise InvalidProof("the proof is made with another key than the token is bound to (jkt)")
        payload = payload_of(proof, key, algorithm)
        if payload is None:
            raise InvalidProof("the signature of the proof is wrong")
        return _decoded(payload)

    async def _once(self, claims: dict[str, Any], bound: Any) -> None:
        now, made = self._clock(), claims.get("iat")
        if isinstance(made, bool) or not isinstance(made, int | float):
            raise InvalidProof("the proof does not say when it was made (iat)")
        if not abs(now - made) <= PROOF_SECONDS:
            raise InvalidProof(
                f"the proof's iat is more than {PROOF_SECONDS:g} s away from the server's time: set the clock"
            )
        name = hashlib.blake2b(msgspec.json.encode((bound, _text(claims, "jti"))), digest_size=16).digest()
        seen = self._seen
        while seen and (seen[first := next(iter(seen))] < now or len(seen) >= PROOFS_KEPT):
            del seen[first]
        first = name not in seen
        seen[name] = now + (lifetime := 2 * PROOF_SECONDS)  # a proof may be made ahead of our time
        if first and self._store is not None:
            try:
                first = await self._store.put(f"proofs/{name.hex()}", b"", ttl=lifetime, only_new=True)
            except StoreError:
                raise Unavailable("it cannot be told now whether the proof was used before") from None
        if not first:
            raise InvalidProof("the proof was used before (jti)")


def _read(part: str) -> dict[str, Any]:
    try:
        return _decoded(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except ValueError:
        raise InvalidProof("the proof cannot be read") from None


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (ValueError, RecursionError):
        raise InvalidProof("the proof cannot be read") from None


def _text(claims: dict[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value or not value.isascii():
        raise InvalidProof(f"the proof has no {name}")
    return value


def _place(url: str) -> tuple[object, str] | None:
    """RFC 9449, 4.3: compared without query and fragment, after the usual normalisation."""
    try:
        parts = urlsplit(url)
        return origin_of(parts), parts.path or "/"
    except ValueError:
        return None
