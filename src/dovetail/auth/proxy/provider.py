"""The identity provider of the proxy: its endpoints, requests, and user identities."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from ...transports.http.client.guarded_fetch import AddressGuard
from ..core import oauth_urls
from ..core.auth_errors import AuthError
from ..core.client_authentication import authenticate
from ..core.code_request import redirect_to
from ..core.oauth_error import Denial
from ..core.pkce import s256
from ..core.token_error_response import code_of
from ..core.token_set import TokenAnswer, check_token, seconds
from ..server.json_documents import ask, fetch
from ..server.jwt import JwtVerifier
from ..server.verifier import InvalidToken, Unavailable
from .login_records import ProviderTokens

CLAIMS_BYTES: Final = 16 << 10
"""Bytes of what a provider says about a user that are kept."""


class Endpoints(Struct, frozen=True, kw_only=True):
    """Where a provider is to be found."""

    authorize: str
    token: str
    issuer: str
    """The issuer of its users: subjects are unique within it."""
    userinfo: str | None = None
    revocation: str | None = None
    jwks_uri: str | None = None
    """With keys, the ID token identifies the user; otherwise ``userinfo``."""
    iss_expected: bool = False
    """Its responses contain ``iss`` (RFC 9207)."""


class IdentityProvider:
    """A client of one provider."""

    def __init__(
        self,
        endpoints: Endpoints | str,
        client_id: str,
        client_secret: str | None,
        *,
        method: str,
        scopes: Sequence[str],
        extra: Mapping[str, str],
        subject: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._endpoints = endpoints if isinstance(endpoints, Endpoints) else None
        self._config = endpoints if isinstance(endpoints, str) else None
        named = self._config or cast("Endpoints", endpoints).token
        self._guard = AddressGuard(named, allow_private=False)
        self._client_id, self._secret, self._method = client_id, client_secret, method
        self._scopes, self._extra, self._subject = scopes, extra, subject
        self._clock = clock
        self._lock = asyncio.Lock()
        self._keys: JwtVerifier | None = None

    async def endpoints(self) -> Endpoints:
        """Return the endpoints. Raises: Unavailable: its configuration is not available."""
        if self._endpoints is None:
            async with self._lock:
                if self._endpoints is None:
                    self._endpoints = await self._configured(self._config or "")
        return self._endpoints

    async def _configured(self, url: str) -> Endpoints:
        document = await fetch(url, guard=self._guard)
        try:
            found = msgspec.convert(document, _Configuration)
            for place in (found.authorization_endpoint, found.token_endpoint, found.jwks_uri):
                oauth_urls.secure(place, "an endpoint", "authorization server")
            # OpenID Connect Discovery, 4.3; some providers name a tenant differently in issuer and URLs.
            if (
                oauth_urls.origin_of(urlsplit(found.issuer)) != oauth_urls.origin_of(urlsplit(url))
                or "{" in found.issuer
            ):
                raise ValueError("it belongs to another issuer")
        except (AuthError, ValueError):
            raise Unavailable("the configuration of the provider cannot be used") from None
        return Endpoints(
            authorize=found.authorization_endpoint,
            token=found.token_endpoint,
            issuer=found.issuer,
            revocation=found.revocation_endpoint,
            jwks_uri=found.jwks_uri,
            iss_expected=found.authorization_response_iss_parameter_supported,
        )

    async def login_url(self, redirect_uri: str, state: str, verifier: str, nonce: str) -> str:
        """Return the URL of the provider's login page."""
        found = await self.endpoints()
        query = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": redirect_uri,
            "state": state,
            "code_challenge": s256(verifier),
            "code_challenge_method": "S256",
            "scope": " ".join(self._scopes) or None,
            "nonce": nonce if found.jwks_uri is not None else None,
            **self._extra,
        }
        return redirect_to(found.authorize, query)

    async def check_issuer(self, iss: str | None) -> None:
        """Check that the response comes from this provider (RFC 9207).

        Raises:
            Denial: it comes from another one.
        """
        found = await self.endpoints()
        if (iss is None and found.iss_expected) or (iss is not None and iss != found.issuer):
            raise Denial("access_denied", "the response comes from another issuer")

    async def redeem(self, code: str, redirect_uri: str, verifier: str) -> ProviderTokens:
        """Redeem the provider's code for tokens.

        Raises:
            Denial, Unavailable: the provider refused, or is unavailable.
        """
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        return await self._tokens(form)

    async def renew(self, tokens: ProviderTokens) -> ProviderTokens:
        """Renew the tokens. Raises: Denial: consent was withdrawn. Unavailable: the provider is unavailable."""
        assert tokens.refresh_token is not None
        form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token}
        found = await self._tokens(form)
        return msgspec.structs.replace(found, refresh_token=found.refresh_token or tokens.refresh_token)

    async def revoke(self, tokens: ProviderTokens) -> None:
        """Revoke the provider's tokens, if it supports that."""
        found = await self.endpoints()
        token = tokens.refresh_token or tokens.access_token
        if found.revocation is not None:
            form = {"token": token}
            headers = authenticate(form, self._client_id, self._method, self._secret)
            await ask(found.revocation, guard=self._guard, form=form, headers=headers)

    async def identify(self, tokens: ProviderTokens, nonce: str) -> dict[str, Any]:
        """Return the verified claims about the user.

        Raises:
            Denial, Unavailable: the provider refused, or is unavailable.
        """
        found = await self.endpoints()
        if found.jwks_uri is not None:
            return await self._id_claims(tokens, found, nonce)
        if found.userinfo is None:
            return {}
        headers = {"Authorization": f"Bearer {tokens.access_token}"}
        claims = await fetch(found.userinfo, guard=self._guard, headers=headers)
        if len(msgspec.json.encode(claims)) > CLAIMS_BYTES:
            raise Denial("server_error", "the claims of the provider about the user are too large")
        return claims

    def subject_of(self, claims: Mapping[str, Any]) -> str | None:
        """Return the subject of the user, or None if unknown."""
        found = claims.get(self._subject)
        return str(found) if isinstance(found, str | int) and found != "" else None

    async def _id_claims(self, tokens: ProviderTokens, found: Endpoints, nonce: str) -> dict[str, Any]:
        """Return the verified claims of the ID token (OpenID Connect Core, 3.1.3.7)."""
        if self._keys is None:
            self._keys = JwtVerifier(
                issuer=found.issuer, audience=self._client_id, jwks_uri=found.jwks_uri, clock=self._clock
            )
        try:
            principal = await self._keys.verify(tokens.id_token or "", {})
        except InvalidToken as error:
            raise Denial(
                "access_denied", f"the ID token of the provider is refused: {error.message}"
            ) from None
        claims = {} if principal is None else dict(principal.claims)
        if claims.get("nonce") != nonce or claims.get("azp", self._client_id) != self._client_id:
            raise Denial("access_denied", "the ID token of the provider belongs to another login")
        return claims

    async def _tokens(self, form: dict[str, str]) -> ProviderTokens:
        found = await self.endpoints()
        headers = authenticate(form, self._client_id, self._method, self._secret)
        status, answer = await ask(found.token, guard=self._guard, form=form, headers=headers)
        error = answer.get("error")  # some report errors with status 200
        if status != 200 or error is not None:
            # GitHub has another error code for an expired refresh token.
            over = error in ("invalid_grant", "bad_refresh_token") and form["grant_type"] == "refresh_token"
            said = f"the provider refused: {code_of(error) or f'HTTP {status}'}"
            raise Denial("invalid_grant" if over else "access_denied", said)
        try:
            made = msgspec.convert(answer, TokenAnswer)
            check_token(made.access_token, "provider's token")
        except (msgspec.ValidationError, AuthError):
            raise Denial("server_error", "the provider returned no usable token") from None
        lifetime = seconds(made.expires_in)
        expires_at = None if lifetime is None else self._clock() + lifetime
        return ProviderTokens(made.access_token, expires_at, lifetime or 0, made.refresh_token, made.id_token)


class _Configuration(Struct, frozen=True):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    revocation_endpoint: str | None = None
    authorization_response_iss_parameter_supported: bool = False
