"""Records of the proxy: pending logins, completed logins, and tokens."""

from __future__ import annotations

from typing import Any

from ..core.code_request import CodeRequest
from ..core.steps import Quiet


class ConsentRequest(Quiet, frozen=True):
    """An authorization request awaiting consent; it travels through the page, sealed."""

    request: CodeRequest
    id: str
    expires: float


class PendingLogin(Quiet, frozen=True):
    """A user who is at the provider."""

    request: CodeRequest
    browser: str
    """The value of the cookie in the same browser."""
    cookie: str
    """The name of that cookie."""
    verifier: str
    nonce: str
    spent: bool = False
    """Whether the user has returned: kept only to refuse a second use of the page."""


class ProviderTokens(Quiet, frozen=True, omit_defaults=True):
    """The provider's tokens for a user. They never leave this server."""

    access_token: str
    expires_at: float | None = None
    lifetime: float = 0
    refresh_token: str | None = None
    id_token: str | None = None


class Login(Quiet, frozen=True):
    """A grant of a user to a client. Everything issued for it ends with it."""

    client_id: str
    subject: str
    issuer: str
    scopes: tuple[str, ...]
    claims: dict[str, Any]
    tokens: ProviderTokens
    serial: int = 0
    """The renewal count, which the valid refresh token contains."""
    redirect_uri: str = ""
    challenge: str = ""
    """The conditions for redeeming its code; None afterwards."""
    owner: str = ""
    """The owner for eviction."""


class Code(Quiet, frozen=True):
    """An authorization code: clients get it sealed. Its login records whether it was used."""

    login: str


class Issued(Quiet, frozen=True):
    """An access or refresh token: clients get it sealed."""

    login: str
    client_id: str
    scopes: tuple[str, ...]
    resource: str
    expires_at: float
    serial: int


class Reference(Quiet, frozen=True):
    """One login of a user, and its client."""

    login: str
    client: str


class UserLogins(Quiet, frozen=True):
    """The logins of one user, most recently used last."""

    logins: tuple[Reference, ...] = ()


class SealedClient(Quiet, frozen=True):
    """A registered client: its id is this record, sealed."""

    redirect_uris: tuple[str, ...]
    name: str | None
    method: str
    salt: str
