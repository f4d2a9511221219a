"""Who may call. Loaded name by name: most servers let in everybody, and need none of it."""

from typing import TYPE_CHECKING

from ....later import later

if TYPE_CHECKING:
    from .access import AccessToken
    from .auth import AuthProvider, MultiAuth, OAuthProvider, RemoteAuthProvider, TokenVerifier
    from .authorization import AuthCheck, AuthContext, require_scopes, restrict_tag, run_auth_checks
    from .oauth_proxy import OAuthProxy
    from .oidc_proxy import OIDCProxy
    from .providers.debug import DebugTokenVerifier
    from .providers.jwt import JWTVerifier, StaticTokenVerifier

_NAMES = {
    ".access": ("AccessToken",),
    ".auth": ("AuthProvider", "MultiAuth", "OAuthProvider", "RemoteAuthProvider", "TokenVerifier"),
    ".authorization": ("AuthCheck", "AuthContext", "require_scopes", "restrict_tag", "run_auth_checks"),
    ".oauth_proxy": ("OAuthProxy",),
    ".oidc_proxy": ("OIDCProxy",),
    ".providers.debug": ("DebugTokenVerifier",),
    ".providers.jwt": ("JWTVerifier", "StaticTokenVerifier"),
}

__getattr__ = later(__name__, {name: module for module, names in _NAMES.items() for name in names})
__all__ = [
    "AccessToken", "AuthCheck", "AuthContext", "AuthProvider", "DebugTokenVerifier", "JWTVerifier", "MultiAuth",
    "OAuthProvider", "OAuthProxy", "OIDCProxy", "RemoteAuthProvider", "StaticTokenVerifier", "TokenVerifier",
    "require_scopes", "restrict_tag", "run_auth_checks",
]  # fmt: skip
