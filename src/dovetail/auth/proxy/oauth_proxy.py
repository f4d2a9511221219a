"""`OAuthProxy` and `OidcProxy`: ``Server(auth=…)`` with users of a provider without client registration."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypedDict, Unpack

from msgspec import Struct

from ...core.principal import Principal
from ...settings import check_kinds
from ...settings.parameter_kinds import TEXT, or_none
from ...stores.base import Store
from ...stores.memory_store import MemoryStore
from ...transports.http.client.guarded_fetch import AddressGuard
from ..core import oauth_urls
from ..core.auth_errors import AuthError
from ..core.client_metadata import METHODS, SCHEMES
from ..core.oauth_error import Denial
from ..core.registration import SECRET_POST
from ..core.resource import canonical
from ..core.scopes import scope_list
from ..server.verifier import Scope, Verifier
from ..server.verifier_routes import Page, PageAnswer, PageRequest
from .issued_tokens import ProxyTokens
from .presets import find_preset
from .provider import Endpoints, IdentityProvider
from .proxy_login import Logins, ProxyUrls
from .proxy_pages import ANYBODY, json_answer
from .registered_clients import ProxyClients
from .sealed_records import SealedRecords

Key = bytes | str | Sequence[bytes | str]


class ProxyOptions(TypedDict, total=False):
    """The options of both proxies; `ProxySettings` documents them."""

    subject: str
    provider_scopes: str | Iterable[str]
    extra: Mapping[str, str]
    method: str
    scopes: str | Iterable[str]
    admit: Callable[[Principal], Any] | None
    redirect_schemes: Collection[str]
    allow_private: bool
    key: Key | None
    store: Store | None
    clock: Callable[[], float]


class ProxySettings(Struct, frozen=True, eq=False, kw_only=True):
    """The options of `OAuthProxy` and `OidcProxy`."""

    subject: str = "sub"
    """The member of the user information that identifies a user."""
    provider_scopes: str | Iterable[str] = ()
    """Scopes to request from the provider. The scopes of this server are ``scopes``."""
    extra: Mapping[str, str] = {}
    """Further parameters of the provider's login page."""
    method: str = SECRET_POST
    """How to authenticate at the token endpoint of the provider: client_secret_post or client_secret_basic."""
    scopes: str | Iterable[str] = ()
    """Scopes of this server that every caller needs."""
    admit: Callable[[Principal], Any] | None = None
    """A function (async or not) of the principal: it returns True, False, or the scopes that the user can have."""
    redirect_schemes: Collection[str] = SCHEMES
    """Further URI schemes of applications to redirect to, in addition to https, loopback and reverse domain names."""
    allow_private: bool = False
    """Whether Client ID Metadata Documents can be in private networks."""
    key: Key | None = None
    """The key that encrypts stored logins; several for rotation, the first encrypts. By default ``client_secret``."""
    store: Store | None = None
    """Where logins are stored; by default the store of the server, or else the memory of the process."""
    clock: Callable[[], float] = time.time
    """The clock, for tests."""


class OAuthProxy(Verifier):
    """An OAuth proxy: users log in at a provider with one client; MCP clients register here and get tokens of
    the proxy.

    ``audience`` is the public URL of the MCP endpoint. The pages of the proxy are next to it; register
    ``…/auth/callback`` as redirect URI at the provider. ``userinfo`` identifies users; without it, each login
    is a separate principal. Every user of the provider is admitted and may grant all requested scopes, unless
    ``admit`` says otherwise. `ProxySettings` has the other options.

    Raises:
        ValueError: an argument is not valid. The message says which.
    """

    def __init__(
        self,
        *,
        authorize: str,
        token: str,
        client_id: str,
        client_secret: str | None = None,
        audience: str,
        userinfo: str | None = None,
        revocation: str | None = None,
        issuer: str | None = None,
        **options: Unpack[ProxyOptions],
    ) -> None:
        """Set the endpoints of the provider. `ProxySettings` documents the other options.

        Args:
            authorize: The authorization endpoint of the provider.
            token: The token endpoint of the provider.
            client_id: The client id of this server at the provider.
            client_secret: The client secret of this server at the provider.
            audience: The public URL of the MCP endpoint.
            userinfo: The endpoint that identifies the user; without it, each login is a new principal.
            revocation: The revocation endpoint of the provider.
            issuer: The issuer of the provider, which its responses must name.
            options: Options of `ProxySettings`.
        """
        check_kinds(
            {
                "authorize": TEXT,
                "token": TEXT,
                "client_id": TEXT,
                "client_secret": or_none(TEXT),
                "audience": TEXT,
                "userinfo": or_none(TEXT),
                "revocation": or_none(TEXT),
                "issuer": or_none(TEXT),
            },
            locals(),
        )
        endpoints = Endpoints(
            authorize=_secure(authorize, "authorize"),
            token=_secure(token, "token"),
            issuer=issuer or oauth_urls.origin(authorize),
            userinfo=None if userinfo is None else _secure(userinfo, "userinfo"),
            revocation=None if revocation is None else _secure(revocation, "revocation"),
        )
        self._begin(endpoints, client_id, client_secret, audience, ProxySettings(**options))

    def _begin(
        self,
        endpoints: Endpoints | str,
        client_id: str,
        client_secret: str | None,
        audience: str,
        settings: ProxySettings,
    ) -> None:
        super().__init__(scopes=settings.scopes)
        self.audience = canonical(_secure(audience, "audience"))
        base = (
            self.audience.rpartition("/")[0]
            if oauth_urls.origin(self.audience) != self.audience
            else self.audience
        )
        self.issuers = (base,)
        self._place = ProxyUrls(base, self.audience, self.scopes)
        self._settings = settings
        if settings.method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}")
        self._provider = IdentityProvider(
            endpoints,
            client_id,
            client_secret,
            method=settings.method,
            scopes=scope_list(settings.provider_scopes),
            extra=settings.extra,
            subject=settings.subject,
            clock=settings.clock,
        )
        default = client_secret or secrets.token_bytes(32)
        self._keys = _keys(default if settings.key is None else settings.key)
        self._tokens: ProxyTokens | None = None
        self._clients: ProxyClients | None = None
        self._logins: Logins | None = None

    @classmethod
    def preset(
        cls,
        name: str,
        *,
        client_id: str,
        client_secret: str,
        audience: str,
        tenant: str | None = None,
        domain: str | None = None,
        url: str | None = None,
        realm: str | None = None,
        **options: Unpack[ProxyOptions],
    ) -> OAuthProxy:
        """Create the proxy for a known provider, such as github, google or entra: a row of `PRESETS`.

        Raises:
            ValueError: the preset is unknown, or needs further arguments.
        """
        row = find_preset(name, {"tenant": tenant, "domain": domain, "url": url, "realm": realm})
        kept: ProxyOptions = {"subject": row.subject, "provider_scopes": row.scopes, "extra": row.extra}
        whole: ProxyOptions = {**kept, **options}
        if row.config_url is not None:
            where = row.config_url
            return OidcProxy(
                config_url=where, client_id=client_id, client_secret=client_secret, audience=audience, **whole
            )
        return OAuthProxy(
            authorize=row.authorize,
            token=row.token,
            userinfo=row.userinfo,
            client_id=client_id,
            client_secret=client_secret,
            audience=audience,
            **whole,
        )

    # --- verifier
    # -----------------------------------------------------------------------------------------------------------

    def attach(self, store: Store | None) -> None:
        """Use ``store`` for all records, unless another one was configured."""
        if self._tokens is not None:
            return
        settings, place = self._settings, self._place
        given = store if settings.store is None else settings.store
        vault = SealedRecords(self._keys, MemoryStore(clock=settings.clock) if given is None else given)
        guard = AddressGuard(None, allow_private=settings.allow_private)
        self._clients = clients = ProxyClients(vault, guard, settings.redirect_schemes, settings.clock)
        self._logins = Logins(place, vault, clients, self._provider, settings.admit, settings.clock)
        self._tokens = ProxyTokens(
            place, vault, clients, self._provider, settings.clock, bounded=given is None
        )

    async def verify(self, token: str, scope: Scope) -> Principal | None:
        return None if self._tokens is None else await self._tokens.verify(token)

    async def provider_token(self, principal: Principal | None) -> str:
        """Return the provider's access token of a user, for calls to its API:
        ``provider_token(ctx.principal)``.

        It is renewed if needed. Do not send it to the client.

        Raises:
            DovetailError: the login has ended, or the provider is unavailable.
        """
        if self._tokens is None or principal is None:
            raise RuntimeError("provider_token needs a principal of this proxy")
        return await self._tokens.provider_token(principal)

    def pages(self, path: str) -> Mapping[str, Page]:
        """Return the pages of the proxy, for an MCP endpoint at ``path``."""
        assert self._logins is not None
        assert self._tokens is not None
        folder = path.rstrip("/").rpartition("/")[0]
        known = ("oauth-authorization-server", "openid-configuration")
        places: dict[str, Page] = {f"/.well-known/{name}{folder}": self._metadata for name in known}
        # Clients also look below an issuer with a path: only that reaches a server mounted with a prefix.
        places |= {f"{folder}/.well-known/{name}": self._metadata for name in known}
        return places | {
            f"{folder}/authorize": self._logins.authorize,
            f"{folder}/consent": self._logins.consent,
            f"{folder}/auth/callback": self._logins.callback,
            f"{folder}/token": _open(self._tokens.token),
            f"{folder}/revoke": _open(self._tokens.revoke),
            f"{folder}/register": _open(self._register),
        }

    async def _metadata(self, request: PageRequest) -> PageAnswer:
        """Return the authorization server metadata (RFC 8414)."""
        if request.method not in ("GET", "OPTIONS"):
            return PageAnswer(405, headers=(*ANYBODY, ("allow", "GET")))
        base = self._place.base
        found: dict[str, Any] = {
            "issuer": base,
            "authorization_endpoint": f"{base}/authorize",
            "token_endpoint": f"{base}/token",
            "registration_endpoint": f"{base}/register",
            "revocation_endpoint": f"{base}/revoke",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": METHODS,
            "revocation_endpoint_auth_methods_supported": METHODS,
            "code_challenge_methods_supported": ["S256"],
            "client_id_metadata_document_supported": True,
            "authorization_response_iss_parameter_supported": True,
        }
        scopes = sorted(request.offered.union(self.scopes))
        return json_answer(found | ({"scopes_supported": scopes} if scopes else {}))

    async def _register(self, request: PageRequest) -> PageAnswer:
        assert self._clients is not None
        if request.method != "POST":
            return PageAnswer(405, headers=(*ANYBODY, ("allow", "POST")))
        try:
            return json_answer(self._clients.register(request.body), 201)
        except Denial as error:
            return json_answer({"error": error.error, "error_description": error.description}, 400)


class OidcProxy(OAuthProxy):
    """`OAuthProxy` for an OpenID Connect provider: ``config_url`` is the URL of its metadata.

    Users are identified by the ID token, which is verified: signature, issuer, audience, time and nonce.

    Raises:
        ValueError: an argument is not valid. The message says which.
    """

    def __init__(
        self,
        *,
        config_url: str,
        client_id: str,
        client_secret: str | None = None,
        audience: str,
        **options: Unpack[ProxyOptions],
    ) -> None:
        """Set the provider. `ProxySettings` documents the other options.

        Args:
            config_url: The URL of the OpenID Connect metadata of the provider.
            client_id: The client id of this server at the provider.
            client_secret: The client secret of this server at the provider.
            audience: The public URL of the MCP endpoint.
            options: Options of `ProxySettings`.
        """
        check_kinds(
            {
                "config_url": TEXT,
                "client_id": TEXT,
                "client_secret": or_none(TEXT),
                "audience": TEXT,
            },
            locals(),
        )
        whole: ProxyOptions = {"provider_scopes": "openid", **options}
        settings = ProxySettings(**whole)
        self._begin(_secure(config_url, "config_url"), client_id, client_secret, audience, settings)


def _open(answer: Page) -> Page:
    """Add the CORS preflight response for pages of other origins."""

    async def with_preflight(request: PageRequest) -> PageAnswer:
        return PageAnswer(204, headers=ANYBODY) if request.method == "OPTIONS" else await answer(request)

    return with_preflight


def _keys(given: Key) -> list[bytes]:
    several = [given] if isinstance(given, bytes | str) else given
    keys = [one.encode() if isinstance(one, str) else bytes(one) for one in several]
    if not keys or any(len(one) < 16 for one in keys):
        raise ValueError(
            "a key needs at least 16 bytes; give key=secrets.token_bytes(32), or a longer client_secret"
        )
    return keys


def _secure(url: str, what: str) -> str:
    try:
        return oauth_urls.secure(url, what, "server")
    except AuthError as error:
        raise ValueError(error.message) from None
