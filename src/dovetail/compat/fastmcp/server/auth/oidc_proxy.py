"""Logging in at a provider with OpenID Connect, through our own proxy for such providers."""

from __future__ import annotations

import logging
import os
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import AnyHttpUrl

from .....auth.proxy.proxy import OAuthProxy as NativeProxy
from .....auth.proxy.proxy import OidcProxy as NativeOidcProxy
from .....auth.server.verifier import Verifier
from .....server.persistence import STORE
from .auth import AuthProvider
from .proxied import Proxied

log = logging.getLogger("fastmcp")

_REFUSED: Final = {
    "extra_token_params": "the token endpoint is sent what RFC 6749 has, and nothing else",
    "fastmcp_access_token_expiry_seconds": "tokens have the lifetime that ours give them",
    "fallback_refresh_token_expiry_seconds": "tokens have the lifetime that ours give them",
    "identity_assertion": "assertions of others are not taken for tokens",
}
"""Options that change who gets in, or for how long, and that ours has nothing for."""
_WITHOUT_EFFECT: Final = (
    "service_documentation_url", "consent_csp_policy", "fallback_access_token_expiry_seconds",
    "token_expiry_threshold_seconds", "timeout_seconds", "cache_ttl_seconds", "max_cache_size", "http_client",
    "verify_id_token", "strict",
)  # fmt: skip
_STRICTER: Final = {
    "require_authorization_consent": (True, "users are asked before every login"),
    "forward_pkce": (True, "the provider is always sent a code challenge"),
    "forward_resource": (True, "the provider is not told what its token is for"),
}
"""Options whose only other value would be less careful than ours is."""


class ProxyProvider(AuthProvider):
    """Users log in at a provider that knows one client, us: `dovetail.auth.OAuthProxy` does the work."""

    def __init__(
        self, base_url: Any, required_scopes: list[str] | None = None, resource_base_url: Any = None,
        redirect_path: str | None = None, jwt_signing_key: str | bytes | None = None,
        extra_authorize_params: dict[str, str] | None = None, token_endpoint_auth_method: str | None = None,
        allowed_client_redirect_uris: list[str] | None = None, valid_scopes: list[str] | None = None,
        token_verifier: Any = None, **others: Any,
    ) -> None:  # fmt: skip
        super().__init__(base_url, None, resource_base_url)
        if redirect_path not in (None, "/auth/callback"):
            raise ValueError("the redirect URI to register with the provider is /auth/callback here")
        self._redirects, self._token_verifier = allowed_client_redirect_uris, token_verifier
        self._settings: dict[str, Any] = {}
        if jwt_signing_key is not None:
            self._settings["key"] = jwt_signing_key
        if extra_authorize_params:
            self._settings["extra"] = extra_authorize_params
        if token_endpoint_auth_method is not None:
            self._settings["method"] = token_endpoint_auth_method
        if required_scopes:
            self._settings["provider_scopes"] = required_scopes
        if valid_scopes is not None:
            most = frozenset(valid_scopes)
            self._settings["admit"] = lambda _: most  # pyright: ignore[reportUnknownLambdaType]
        self._take(others)

    def _take(self, others: dict[str, Any]) -> None:
        """The rest of the options, of which none is ours.

        Raises:
            ValueError: one of them means something that would not happen.
            TypeError: nobody knows one of them.
        """
        issuer = others.pop("issuer_url", None)
        if issuer is not None and str(issuer).rstrip("/") != str(self.base_url).rstrip("/"):
            raise ValueError("issuer_url= cannot be honoured: the issuer of tokens is base_url here")
        if others.pop("enable_cimd", True) is not True:
            raise ValueError(
                "enable_cimd=False cannot be honoured: clients may always be described by a document"
            )
        _check_storage(others.pop("client_storage", None))
        for word, why in _REFUSED.items():
            if others.pop(word, None) is not None:
                raise ValueError(f"{word}= cannot be honoured: {why}")
        for word, (usual, instead) in _STRICTER.items():
            if others.pop(word, usual) != usual:
                log.warning("%s= makes no difference here: %s", word, instead)
        for word in _WITHOUT_EFFECT:
            if others.pop(word, None) is not None:
                log.info("%s= makes no difference here", word)
        if others:
            raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument {min(others)!r}")

    def proxy(self, audience: str) -> NativeProxy:
        """The proxy for the endpoint at ``audience``."""
        raise NotImplementedError

    def get_well_known_routes(self, mcp_path: str | None = None) -> list[Any]:
        """What clients look for at the root of a host, for applications that mount this one below a prefix."""
        from ....mcp.server.auth.routes import create_protected_resource_routes, page_route

        where = self.resource(mcp_path)
        if where is None:
            return []
        proxy = self.proxy(where)
        proxy.attach(None)
        pages = proxy.pages(urlsplit(where).path).items()
        routes = [page_route(path, page, "GET") for path, page in pages if path.startswith("/.well-known/")]
        issuers = [AnyHttpUrl(one) for one in proxy.issuers]
        return [*routes, *create_protected_resource_routes(AnyHttpUrl(where), issuers)]

    def as_verifier(self) -> Verifier:
        audience = self.resource()
        if audience is None:
            raise ValueError("base_url is needed: it is where users come back to")
        proxy = self.proxy(audience)
        if self._redirects is None and self._token_verifier is None:
            return proxy
        return Proxied(proxy, self._redirects, self._token_verifier)


def _check_storage(storage: Any) -> None:
    """Logins are kept in our own kinds of store: one in memory has a counterpart, others have to be named to us."""
    if storage is None:
        return
    if os.environ.get(STORE):
        log.info("client_storage= is not asked: logins are kept in the store that %s names", STORE)
    elif type(storage).__name__ == "MemoryStore":
        log.info("client_storage= is not asked: logins are kept in the memory of this process")
    else:
        raise ValueError(
            f"client_storage= cannot be used: name a store with {STORE}, such as sqlite:/path/file.db"
        )


class OIDCProxy(ProxyProvider):
    """`ProxyProvider` for a provider whose OpenID configuration lies at ``config_url``."""

    def __init__(
        self, *, config_url: Any, client_id: str, client_secret: str | None = None, base_url: Any,
        audience: str | None = None, **options: Any,
    ) -> None:  # fmt: skip
        if audience is not None:
            options["extra_authorize_params"] = {
                **(options.get("extra_authorize_params") or {}),
                "audience": audience,
            }
        self._where, self._client = str(config_url), (client_id, client_secret)
        super().__init__(base_url, **options)

    def proxy(self, audience: str) -> NativeProxy:
        identity, secret = self._client
        return NativeOidcProxy(
            config_url=self._where,
            client_id=identity,
            client_secret=secret,
            audience=audience,
            **self._settings,
        )


class PresetProvider(ProxyProvider):
    """`ProxyProvider` for a provider that is known by name."""

    preset = ""

    def __init__(self, *, client_id: str, client_secret: str, base_url: Any = None, **options: Any) -> None:
        self._client = client_id, client_secret
        self._place: dict[str, str] = {}
        super().__init__(base_url, **options)

    def proxy(self, audience: str) -> NativeProxy:
        identity, secret = self._client
        return NativeProxy.preset(
            self.preset,
            client_id=identity,
            client_secret=secret,
            audience=audience,
            **self._place,
            **self._settings,
        )
