"""What somebody's authorization server or verifier of tokens is made of."""

from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol
from urllib.parse import parse_qs, urlencode, urlparse, urlunparse

from pydantic import AnyUrl, BaseModel
from typing_extensions import TypeVar

from ...shared.auth import OAuthClientInformationFull, OAuthToken


class AuthorizationParams(BaseModel):
    state: str | None
    scopes: list[str] | None
    code_challenge: str
    redirect_uri: AnyUrl
    redirect_uri_provided_explicitly: bool
    resource: str | None = None


class AuthorizationCode(BaseModel):
    code: str
    scopes: list[str]
    expires_at: float
    client_id: str
    code_challenge: str
    redirect_uri: AnyUrl
    redirect_uri_provided_explicitly: bool
    resource: str | None = None
    subject: str | None = None


class RefreshToken(BaseModel):
    token: str
    client_id: str
    scopes: list[str]
    expires_at: int | None = None
    resource: str | None = None
    subject: str | None = None


class AccessToken(BaseModel):
    token: str
    client_id: str
    scopes: list[str]
    expires_at: int | None = None
    resource: str | None = None
    subject: str | None = None
    claims: dict[str, Any] | None = None


@dataclass(frozen=True)
class RegistrationError(Exception):
    error: Literal[
        "invalid_redirect_uri",
        "invalid_client_metadata",
        "invalid_software_statement",
        "unapproved_software_statement",
    ]
    error_description: str | None = None


@dataclass(frozen=True)
class AuthorizeError(Exception):
    error: str
    error_description: str | None = None


@dataclass(frozen=True)
class TokenError(Exception):
    error: str
    error_description: str | None = None


class TokenVerifier(Protocol):
    """Says what a token means."""

    async def verify_token(self, token: str) -> AccessToken | None: ...


AuthorizationCodeT = TypeVar("AuthorizationCodeT", bound=AuthorizationCode)
RefreshTokenT = TypeVar("RefreshTokenT", bound=RefreshToken)
AccessTokenT = TypeVar("AccessTokenT", bound=AccessToken)


class OAuthAuthorizationServerProvider(Protocol, Generic[AuthorizationCodeT, RefreshTokenT, AccessTokenT]):
    """An authorization server of the program's own."""

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None: ...

    async def register_client(self, client_info: OAuthClientInformationFull) -> None: ...

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str: ...

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCodeT | None: ...

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCodeT
    ) -> OAuthToken: ...

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshTokenT | None: ...

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshTokenT, scopes: list[str]
    ) -> OAuthToken: ...

    async def load_access_token(self, token: str) -> AccessTokenT | None: ...

    async def revoke_token(self, token: AccessTokenT | RefreshTokenT) -> None: ...


class ProviderTokenVerifier(TokenVerifier):
    """Verifies with the tokens that a provider of the program's own has given out."""

    def __init__(self, provider: OAuthAuthorizationServerProvider[Any, Any, Any]) -> None:
        self.provider = provider

    async def verify_token(self, token: str) -> AccessToken | None:
        return await self.provider.load_access_token(token)


def construct_redirect_uri(redirect_uri_base: str, **params: str | None) -> str:
    """An address with these parameters beside those it has."""
    parts = urlparse(redirect_uri_base)
    query = [(name, value) for name, values in parse_qs(parts.query).items() for value in values]
    query += [(name, value) for name, value in params.items() if value is not None]
    return urlunparse(parts._replace(query=urlencode(query)))
