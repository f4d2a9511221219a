"""`JwtVerifier`: verify JSON Web Tokens of one issuer (RFC 7519, RFC 9068)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from ...core.principal import Principal
from ...settings import check_kinds
from ...settings.parameter_kinds import CLOCK, FLAG, MAPPING, NAMES, SCOPES, TEXT, or_none
from ..core import oauth_urls
from ..core.auth_errors import AuthError
from ..core.claims import ExpectedClaims, TokenRefused, principal_of
from ..core.scopes import Hierarchy
from .keys import KEYS_SECONDS, FetchedKeys, Key, KeySet, payload_of
from .verified_tokens import TOKENS_VERIFIED, VerifiedTokens
from .verifier import InvalidToken, Scope, Verifier

ASYMMETRIC: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519",
)  # fmt: skip
_SYMMETRIC: Final = ("HS256", "HS384", "HS512")
_TYPES: Final = frozenset({None, "jwt", "at+jwt", "application/at+jwt"})
"""Accepted ``typ`` values of access tokens; proofs, grants and logout tokens have others."""


class JwtVerifier(Verifier):
    """Accepts tokens signed by ``issuer`` for ``audience``.

    ``keys`` is a JWK set; otherwise keys are fetched from ``jwks_uri``, or from the URL in the issuer's
    metadata. ``scopes`` are required of every caller, ``implies`` lists scopes that include others. Further
    audiences are allowed unless ``exclusive``. Clocks get no leeway.

    Raises:
        ValueError: an argument is not valid. The message says which.
    """

    proves = True

    def __init__(
        self,
        *,
        issuer: str,
        audience: str,
        keys: Mapping[str, Any] | str | bytes | None = None,
        jwks_uri: str | None = None,
        algorithms: Sequence[str] | None = None,
        exclusive: bool = False,
        scopes: str | Iterable[str] = (),
        implies: Mapping[str, str | Iterable[str]] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Set who issues tokens, and for which audience.

        Args:
            issuer: The issuer that tokens must have.
            audience: The audience that tokens must have: the URL of this server.
            keys: The public keys as a JWK set; by default they are fetched.
            jwks_uri: The URL of the JWK set; by default from the metadata of the issuer.
            algorithms: Accepted signature algorithms; by default the asymmetric ones.
            exclusive: Refuse tokens that have other audiences as well.
            scopes: Scopes that every caller needs.
            implies: Which scopes include other scopes.
        """
        check_kinds(
            {
                "issuer": TEXT,
                "audience": TEXT,
                "keys": (Mapping | str | bytes | None, "a JWK set, or None"),
                "jwks_uri": or_none(TEXT),
                "algorithms": or_none(NAMES),
                "exclusive": FLAG,
                "scopes": SCOPES,
                "implies": or_none(MAPPING),
                "clock": CLOCK,
            },
            locals(),
        )
        super().__init__(scopes=scopes)
        self.issuers, self.audience = (issuer,), audience
        self._algorithms = _algorithms(algorithms, given=keys is not None)
        if keys is None or issuer.startswith("http:"):
            _secure(issuer, "issuer")
        if jwks_uri is not None:
            _secure(jwks_uri, "jwks_uri")
        self._given = None if keys is None else KeySet(keys)
        self._verified = VerifiedTokens(TOKENS_VERIFIED)
        self._fetched = FetchedKeys(issuer, jwks_uri, clock, self._verified.clear)
        self._expected = ExpectedClaims(issuer, audience, exclusive, Hierarchy(implies))
        self._clock = clock

    async def verify(self, token: str, scope: Scope) -> Principal | None:
        now = self._clock()
        known = self._verified.find(token, now)
        if known is not None:
            return known[0]
        algorithm, kid = self._header(token)
        if self._given is not None:
            keys = self._given.find(algorithm, kid)
        elif _issuer(token) == self.issuers[0]:
            keys = await self._fetched.find(algorithm, kid)
        else:  # needs no key lookup
            raise InvalidToken("the issuer of the token (iss) is not accepted")
        if not keys:
            raise InvalidToken("the token is signed with an unknown key")
        try:
            principal = principal_of(_claims(token, algorithm, keys), self._expected, now, signed=True)
        except TokenRefused as error:
            raise InvalidToken(str(error), kind=error.kind) from None
        assert principal.expires is not None
        # A removed key takes effect when keys are fetched again, at the latest when cached tokens expire.
        until = principal.expires if self._given is not None else min(principal.expires, now + KEYS_SECONDS)
        self._verified.keep(token, principal, until)
        return principal

    def _header(self, token: str) -> tuple[str, str | None]:
        """Return algorithm and key id of the unverified header."""
        if token.count(".") != 2:
            raise InvalidToken("the token is not a signed JWT")
        try:
            header = msgspec.json.decode(_decoded(token.partition(".")[0]), type=dict[str, Any])
        except (ValueError, RecursionError):
            raise InvalidToken("the header of the token cannot be read") from None
        algorithm, kid, kind = header.get("alg"), header.get("kid"), header.get("typ")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            raise InvalidToken("the signature algorithm of the token is not accepted")
        if (kind.lower() if isinstance(kind, str) else kind) not in _TYPES:
            raise InvalidToken("the token is not an access token (typ)")
        if "crit" in header or not (kid is None or isinstance(kid, str)):
            raise InvalidToken("the header of the token has members that are not supported")
        return algorithm, kid


def _issuer(token: str) -> Any:
    """Return the unverified issuer of the token."""
    try:
        return msgspec.json.decode(_decoded(token.split(".")[1]), type=dict[str, Any]).get("iss")
    except (ValueError, RecursionError):
        raise InvalidToken("the claims of the token cannot be read") from None


def _claims(token: str, algorithm: str, keys: list[Key]) -> dict[str, Any]:
    """Return the claims after verifying the signature."""
    for key in keys:
        payload = payload_of(token, key, algorithm)
        if payload is None:
            continue
        try:
            return msgspec.json.decode(payload, type=dict[str, Any])
        except (ValueError, RecursionError):
            raise InvalidToken("the claims of the token cannot be read") from None
    raise InvalidToken("the signature of the token is not valid")


def _decoded(text: str) -> bytes:
    from base64 import urlsafe_b64decode

    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _algorithms(given_: Sequence[str] | None, *, given: bool) -> frozenset[str]:
    """Return the accepted algorithms. Symmetric ones only if named together with their key."""
    chosen = frozenset(ASYMMETRIC if given_ is None else given_)
    wrong = chosen - frozenset(ASYMMETRIC) - (frozenset(_SYMMETRIC) if given else frozenset())
    if wrong or not chosen:
        names = ", ".join(sorted(wrong)) or "an empty list"
        raise ValueError(f"unsupported algorithms: {names}; use some of {', '.join(ASYMMETRIC)}")
    return chosen


def _secure(url: str, what: str) -> None:
    try:
        oauth_urls.secure(url, f"the {what}", "server")
    except AuthError as error:
        raise ValueError(error.message) from None
