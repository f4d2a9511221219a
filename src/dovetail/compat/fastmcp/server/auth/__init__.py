"""Who may call. Loaded name by name: most servers let in everybody, and need none of it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    for module, names in _NAMES.items():
        if name in names:
            value = globals()[name] = vars(import_module(module, __name__))[name]
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "AccessToken", "AuthCheck", "AuthContext", "AuthProvider", "DebugTokenVerifier", "JWTVerifier", "MultiAuth",
    "OAuthProvider", "OAuthProxy", "OIDCProxy", "RemoteAuthProvider", "StaticTokenVerifier", "TokenVerifier",
    "require_scopes", "restrict_tag", "run_auth_checks",
]  # fmt: skip
