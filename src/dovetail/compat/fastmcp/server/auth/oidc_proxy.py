"""Logging in at a provider with OpenID Connect, through our own proxy for such providers."""

from __future__ import annotations

from typing import Any

from .....auth.proxy.proxy import OAuthProxy as NativeProxy
from .....auth.proxy.proxy import OidcProxy as NativeOidcProxy
from .....auth.server.verifier import Verifier
from .auth import AuthProvider


class ProxyProvider(AuthProvider):
    """Users log in at a provider that knows one client, us: `dovetail.auth.OAuthProxy` does the work."""

    def __init__(
        self,
        base_url: Any,
        required_scopes: list[str] | None = None,
        resource_base_url: Any = None,
        redirect_path: str | None = None,
        jwt_signing_key: str | bytes | None = None,
        extra_authorize_params: dict[str, str] | None = None,
        token_endpoint_auth_method: str | None = None,
        **others: Any,
    ) -> None:
        super().__init__(base_url, None, resource_base_url)
        if redirect_path not in (None, "/auth/callback"):
            raise ValueError("the redirect URI to register with the provider is /auth/callback here")
        self._asked = required_scopes
        self._others = others
        self._settings: dict[str, Any] = {}
        if jwt_signing_key is not None:
            self._settings["key"] = jwt_signing_key
        if extra_authorize_params:
            self._settings["extra"] = extra_authorize_params
        if token_endpoint_auth_method is not None:
            self._settings["method"] = token_endpoint_auth_method
        if required_scopes:
            self._settings["provider_scopes"] = required_scopes

    def proxy(self, audience: str) -> NativeProxy:
        """The proxy for the endpoint at ``audience``."""
        raise NotImplementedError

    def as_verifier(self) -> Verifier:
        audience = self.resource()
        if audience is None:
            raise ValueError("base_url is needed: it is where users come back to")
        return self.proxy(audience)


class OIDCProxy(ProxyProvider):
    """`ProxyProvider` for a provider whose OpenID configuration lies at ``config_url``."""

    def __init__(
        self,
        *,
        config_url: Any,
        client_id: str,
        client_secret: str | None = None,
        base_url: Any,
        **options: Any,
    ) -> None:
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

    def __init__(self, *, client_id: str, client_secret: str, base_url: Any, **options: Any) -> None:
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
