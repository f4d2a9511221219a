"""Authorization for servers and clients: token verification, OAuth logins, and an OAuth proxy.

`core` contains the protocol logic without I/O; `server` verifies tokens and protects components; `client`
obtains tokens; `proxy` is an authorization server that forwards logins to an identity provider. Names are
imported when first used, because some need an extra.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ..core.principal import Principal

if TYPE_CHECKING:
    from .client.credentials import ClientCredentials, IdentityAssertion, WorkloadIdentity
    from .client.device_code import DeviceCode
    from .client.dpop_signer import DPoP
    from .client.oauth import OAuth
    from .client.on_behalf_of import TokenExchange
    from .client.storage import KeyringStore, MemoryTokens, TokenStorage, TokenStore
    from .core.auth_errors import AuthError
    from .proxy.oauth_proxy import OAuthProxy, OidcProxy
    from .server.introspection import IntrospectionVerifier
    from .server.jwt import JwtVerifier
    from .server.static_tokens import ApiKeys, StaticTokens
    from .server.verifier import AnyOf, InvalidToken, Unavailable, Verifier

_HOMES = {
    "client.credentials": "ClientCredentials IdentityAssertion WorkloadIdentity",
    "client.device_code": "DeviceCode",
    "client.on_behalf_of": "TokenExchange",
    "client.oauth": "OAuth",
    "client.dpop_signer": "DPoP",
    "client.storage": "KeyringStore MemoryTokens TokenStorage TokenStore",
    "core.auth_errors": "AuthError",
    "proxy.oauth_proxy": "OAuthProxy OidcProxy",
    "server.introspection": "IntrospectionVerifier",
    "server.jwt": "JwtVerifier",
    "server.static_tokens": "ApiKeys StaticTokens",
    "server.verifier": "AnyOf InvalidToken Unavailable Verifier",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "AnyOf",
    "ApiKeys",
    "AuthError",
    "ClientCredentials",
    "DPoP",
    "DeviceCode",
    "IdentityAssertion",
    "IntrospectionVerifier",
    "InvalidToken",
    "JwtVerifier",
    "KeyringStore",
    "MemoryTokens",
    "OAuth",
    "OAuthProxy",
    "OidcProxy",
    "Principal",
    "StaticTokens",
    "TokenExchange",
    "TokenStorage",
    "TokenStore",
    "Unavailable",
    "Verifier",
    "WorkloadIdentity",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f".{home}", __name__), name)
    return value
