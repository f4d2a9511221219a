"""DPoP: access tokens bound to a key of the client (RFC 9449, SEP-1932)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import urlsplit, urlunsplit

import msgspec

from ...client.auth import AuthRequest
from ...client.http_client import Send
from ...settings import check_kinds
from ...settings.parameter_kinds import TEXT
from ..core import combined_challenge as demands
from ..core import oauth_urls
from ..core.combined_challenge import Demand
from ..core.flow import HeldTokens
from .authorizer import Authorizer
from .signing import KeySigner, digest

NONCES_KEPT: Final = 64
"""Origins whose proof nonce is remembered."""
NONCE_LENGTH: Final = 1024
"""Characters of such a nonce."""


class KeyProver:
    """Creates the proofs for one key, with the nonces that servers require."""

    def __init__(self, signer: KeySigner) -> None:
        self._signer = signer
        self._nonces: dict[str, str] = {}

    @property
    def thumbprint(self) -> str:
        return self._signer.thumbprint

    def proof(self, method: str, url: str, token: str | None = None) -> str:
        parts = urlsplit(url)
        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(16),
            "htm": method,
            "htu": urlunsplit((parts.scheme, parts.netloc, parts.path, "", "")),
            "iat": int(time.time()),
        }
        if token is not None:
            claims["ath"] = digest(token)
        nonce = self._nonces.get(oauth_urls.origin(url))
        if nonce is not None:
            claims["nonce"] = nonce
        return self._signer.sign(claims, {"typ": "dpop+jwt", "jwk": self._signer.public})

    def take_nonce(self, url: str, nonce: str) -> None:
        if nonce and len(nonce) <= NONCE_LENGTH:
            origin = oauth_urls.origin(url)
            self._nonces.pop(origin, None)
            if len(self._nonces) >= NONCES_KEPT:
                del self._nonces[next(iter(self._nonces))]
            self._nonces[origin] = nonce

    def knows(self, url: str, nonce: str) -> bool:
        return self._nonces.get(oauth_urls.origin(url)) == nonce


class DPoP:
    """Another login with tokens bound to a key of this client: ``DPoP(OAuth())``.

    Each server gets one key, stored with its tokens in the store of ``inner``.

    Raises:
        TypeError: ``inner`` is not a login of `dovetail.auth`.
        ValueError: the algorithm is unknown.
    """

    def __init__(self, inner: Authorizer, *, algorithm: str = "ES256") -> None:
        """Set the login to protect.

        Args:
            inner: The login, such as ``OAuth()``.
            algorithm: The algorithm of the key.
        """
        check_kinds(
            {
                "algorithm": TEXT,
            },
            locals(),
        )
        if not isinstance(cast("Any", inner), Authorizer):
            raise TypeError("DPoP needs a login such as OAuth, ClientCredentials or DeviceCode")
        KeySigner.made_for(algorithm)
        self.inner = inner
        self._algorithm = algorithm
        self._provers: dict[str, KeyProver] = {}

    async def authorize(self, request: AuthRequest) -> Mapping[str, str]:
        prover = await self._prover(request.url)
        held = await self.inner.current(request, prover)
        if held is None:
            return {}
        token = held.tokens.access_token
        proof = prover.proof(request.method, _http(request.target), token)
        return {"Authorization": f"DPoP {token}", "DPoP": proof}

    async def answered(
        self, request: AuthRequest, sent: Mapping[str, str], status: int, headers: Mapping[str, str]
    ) -> bool:
        """Store the nonce of a response, and answer its challenge.

        Raises:
            AuthError: no authorization could be obtained.
        """
        prover = await self._prover(request.url)
        target, nonce = _http(request.target), headers.get("DPoP-Nonce")
        fresh = nonce is not None and not prover.knows(target, nonce)
        if nonce is not None:
            prover.take_nonce(target, nonce)
        if status not in (401, 403):
            return False
        demand = demands.read(headers.get("WWW-Authenticate"))
        if demand.error == "use_dpop_nonce":
            return fresh  # the token is valid, only the proof was not
        return await self.inner.challenged(request, sent.get("Authorization", ""), status, demand, prover)

    async def log_in(self, url: str, send: Send, demand: Demand) -> HeldTokens:
        """Log in to the server at ``url``, even if tokens are stored for it. Raises: AuthError."""
        return await self.inner.log_in(url, send, demand, await self._prover(url))

    async def log_out(self, url: str, send: Send) -> bool | None:
        """Remove tokens and key for ``url`` and revoke the tokens; see `Authorizer.log_out`."""
        revoked = await self.inner.log_out(url, send)
        self._provers.pop(url, None)
        await self.inner.store.delete(("dpop", url, self._algorithm))
        return revoked

    async def _prover(self, url: str) -> KeyProver:
        prover = self._provers.get(url)
        if prover is None:
            prover = KeyProver(await self._signer(url))
            prover = self._provers.setdefault(url, prover)
        return prover

    async def _signer(self, url: str) -> KeySigner:
        key = ("dpop", url, self._algorithm)
        kept = await self.inner.store.get(key)
        if kept is not None:
            return KeySigner.of_jwk(msgspec.json.decode(kept), self._algorithm)
        signer = KeySigner.made_for(self._algorithm)
        await self.inner.store.put(key, msgspec.json.encode(signer.private))
        return signer


def _http(url: str) -> str:
    return f"http{url[2:]}" if url.startswith(("ws://", "wss://")) else url
