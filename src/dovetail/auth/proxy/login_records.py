"""What a proxy keeps: a login on its way, what became of it, and the tokens it was given."""

from __future__ import annotations

from typing import Any

from ..core.code_request import CodeRequest
from ..core.steps import Quiet


class Asked(Quiet, frozen=True):
    """An authorization request that the user is asked about; it travels through the page, sealed."""

    request: CodeRequest
    id: str
    expires: float


class Away(Quiet, frozen=True):
    """A user who is at the provider."""

    request: CodeRequest
    browser: str
    """What the cookie of the same browser has to say."""
    cookie: str
    """How that cookie is called."""
    verifier: str
    nonce: str
    spent: bool = False
    """The user has come back: this is kept only so that nobody agrees with the same page again."""


class ProviderTokens(Quiet, frozen=True, omit_defaults=True):
    """What the provider gave for a user. It never leaves this server."""

    access_token: str
    expires_at: float | None = None
    lifetime: float = 0
    refresh_token: str | None = None
    id_token: str | None = None


class Login(Quiet, frozen=True):
    """What a user has granted to a client: everything that is issued for it ends with it."""

    client_id: str
    subject: str
    issuer: str
    scopes: tuple[str, ...]
    claims: dict[str, Any]
    tokens: ProviderTokens
    serial: int = 0
    """How often it was renewed: the refresh token that says so is the good one."""
    redirect_uri: str = ""
    challenge: str = ""
    """What whoever redeems its code has to know; nothing once that was done."""
    owner: str = ""
    """Whose place it takes where there are only so many."""


class Code(Quiet, frozen=True):
    """A code that may be redeemed once: the text that clients have is this, sealed. Its login says whether it was."""

    login: str


class Issued(Quiet, frozen=True):
    """An access or refresh token of ours: the text that clients have is this, sealed."""

    login: str
    client_id: str
    scopes: tuple[str, ...]
    resource: str
    expires_at: float
    serial: int


class Reference(Quiet, frozen=True):
    """One login of a user, and whose client it was made with."""

    login: str
    client: str


class Held(Quiet, frozen=True):
    """The logins of one user, the one used last at the end."""

    logins: tuple[Reference, ...] = ()


class Named(Quiet, frozen=True):
    """A registered client: the id it is known by is this, sealed."""

    redirect_uris: tuple[str, ...]
    name: str | None
    method: str
    salt: str
