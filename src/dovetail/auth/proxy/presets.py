"""Presets of common identity providers, one row each."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import Final

from msgspec import Struct
from msgspec.structs import replace


class Preset(Struct, frozen=True, kw_only=True):
    """A preset. Strings may contain ``{names}`` of arguments."""

    config_url: str | None = None
    """The URL of its OpenID configuration; otherwise the endpoints are given."""
    authorize: str = ""
    token: str = ""
    userinfo: str | None = None
    subject: str = "sub"
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    extra: Mapping[str, str] = {}
    """Additional parameters of its login page."""
    forbidden: tuple[str, ...] = ()
    """Values that stand for any tenant, which has no single issuer."""


PRESETS: Final[Mapping[str, Preset]] = {
    "github": Preset(
        authorize="https://github.com/login/oauth/authorize",
        token="https://github.com/login/oauth/access_token",
        userinfo="https://api.github.com/user",
        subject="id",  # a login name can be released and taken by another user
        scopes=("read:user",),
    ),
    "discord": Preset(
        authorize="https://discord.com/oauth2/authorize",
        token="https://discord.com/api/oauth2/token",
        userinfo="https://discord.com/api/users/@me",
        subject="id",
        scopes=("identify",),
    ),
    "google": Preset(
        config_url="https://accounts.google.com/.well-known/openid-configuration",
        # Both are needed to get a refresh token.
        extra={"access_type": "offline", "prompt": "consent"},
    ),
    "entra": Preset(
        config_url="https://login.microsoftonline.com/{tenant}/v2.0/.well-known/openid-configuration",
        subject="oid",  # `sub` differs between clients
        scopes=("openid", "profile", "email", "offline_access"),
        forbidden=("common", "organizations", "consumers"),
    ),
    "auth0": Preset(
        config_url="https://{domain}/.well-known/openid-configuration",
        scopes=("openid", "profile", "email", "offline_access"),
    ),
    "keycloak": Preset(config_url="{url}/realms/{realm}/.well-known/openid-configuration"),
    "workos": Preset(
        config_url="https://{domain}/.well-known/openid-configuration",
        scopes=("openid", "profile", "email", "offline_access"),
    ),
}


def find_preset(name: str, said: Mapping[str, str | None]) -> Preset:
    """Return the preset of a provider with the given arguments.

    Raises:
        ValueError: the preset is unknown, or an argument is missing.
    """
    row = PRESETS.get(name)
    if row is None:
        raise ValueError(f"unknown preset {name!r}; use one of {', '.join(PRESETS)}")
    words = [word for _, word, _, _ in Formatter().parse(row.config_url or "") if word]
    for word in words:
        value = said[word]
        if not value or value in row.forbidden:
            raise ValueError(f"the preset {name} needs {word}=…" + (f", not {value}" if value else ""))
    filled = {word: (said[word] or "").rstrip("/") for word in words}
    return replace(row, config_url=row.config_url and row.config_url.format(**filled))
