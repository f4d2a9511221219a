"""Machines that log in by themselves: by a secret, or by a JWT that proves who they are."""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from pydantic import BaseModel

from ......auth.core.discovery import Place
from ......auth.core.grants import Credentials, Grant, Obtained
from ......auth.core.registration import Identity, Registration
from ......auth.core.steps import Flow, Sources, Supply
from ......auth.core.token_endpoint import ASSERTION_TYPE, request_tokens
from ....shared.auth import OAuthClientInformationFull, OAuthClientMetadata
from ..oauth2 import OAuthClientProvider, TokenStorage

AssertionProvider = Callable[[str], Awaitable[str]]


def static_assertion_provider(token: str) -> AssertionProvider:
    """Whoever asks gets ``token``."""

    async def provide(audience: str) -> str:
        return token

    return provide


class SignedJWTParameters(BaseModel):
    """A key, and what is said of the client in what it signs."""

    issuer: str
    subject: str
    signing_key: str
    signing_algorithm: str = "RS256"
    lifetime_seconds: int = 300
    additional_claims: dict[str, Any] | None = None

    def create_assertion_provider(self) -> AssertionProvider:
        """Gives a JWT for the audience it is asked for."""
        from ......auth.client.signing import KeySigner  # joserfc, of the extra ``auth``

        signer = KeySigner.of_pem(self.signing_key, self.signing_algorithm)

        async def provide(audience: str) -> str:
            now = int(time.time())
            claims = {"iss": self.issuer, "sub": self.subject, "aud": audience, "iat": now}
            claims |= {"exp": now + self.lifetime_seconds, "jti": str(uuid.uuid4())}
            return signer.sign({**claims, **(self.additional_claims or {})})

        return provide


class _Machine(OAuthClientProvider):
    """Known to the authorization server beforehand; ``issuer`` is the only one that it is known to."""

    def __init__(
        self, server_url: str, storage: TokenStorage, info: OAuthClientInformationFull, issuer: str | None
    ) -> None:
        self._info = info
        self._issuer = issuer
        said = OAuthClientMetadata(
            redirect_uris=None,
            grant_types=info.grant_types,
            token_endpoint_auth_method=info.token_endpoint_auth_method,
            scope=info.scope,
        )
        super().__init__(server_url, said, storage)
        self.context.client_info = info

    @property
    def _identity(self) -> Identity:
        return Identity(
            client_id=self._info.client_id,
            client_secret=self._info.client_secret,
            issuer=self._issuer,
            method=self._info.token_endpoint_auth_method,
        )


def _info(client_id: str, secret: str | None, method: str, scopes: str | None) -> OAuthClientInformationFull:
    return OAuthClientInformationFull(
        redirect_uris=None, client_id=client_id, client_secret=secret, grant_types=["client_credentials"],
        token_endpoint_auth_method=method, scope=scopes,
    )  # fmt: skip


class ClientCredentialsOAuthProvider(_Machine):
    """A machine with a secret."""

    def __init__(
        self, server_url: str, storage: TokenStorage, client_id: str, client_secret: str,
        token_endpoint_auth_method: Literal["client_secret_basic", "client_secret_post"] = "client_secret_basic",
        scopes: str | None = None, issuer: str | None = None,
    ) -> None:  # fmt: skip
        info = _info(client_id, client_secret, token_endpoint_auth_method, scopes)
        super().__init__(server_url, storage, info, issuer)

    def _way(self) -> Grant:
        return Credentials(self._identity)


class PrivateKeyJWTOAuthProvider(_Machine):
    """A machine with a key: ``assertion_provider`` gets the issuer and gives what proves who it is."""

    def __init__(
        self, server_url: str, storage: TokenStorage, client_id: str, assertion_provider: AssertionProvider,
        scopes: str | None = None, issuer: str | None = None,
    ) -> None:  # fmt: skip
        self._provide = assertion_provider
        super().__init__(server_url, storage, _info(client_id, None, "private_key_jwt", scopes), issuer)

    def _way(self) -> Grant:
        return _Asserted(self._identity, self._provide)


class _Asserted(Credentials):
    def __init__(self, identity: Identity, provide: AssertionProvider) -> None:
        super().__init__(identity)
        self._provide = provide

    def obtain(self, place: Place, scopes: tuple[str, ...], sources: Sources) -> Flow[Obtained]:
        proof: str = yield Supply(lambda: self._provide(place.issuer), "the assertion")
        form = {
            "grant_type": "client_credentials",
            "client_assertion_type": ASSERTION_TYPE,
            "client_assertion": proof,
        }
        client = Registration(issuer=place.issuer, client_id=self.identity.client_id or "")
        return client, (yield from request_tokens(place, client, form, sources, scopes=scopes))
