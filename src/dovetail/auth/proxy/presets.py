"""Providers that many use, one row each: where they are, and what is peculiar to them."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import Final

from msgspec import Struct
from msgspec.structs import replace


class Preset(Struct, frozen=True, kw_only=True):
    """What is known of a provider. Texts may have ``{names}`` of what an author has to say."""

    config_url: str | None = None
    """Where its OpenID configuration lies; without one, the endpoints stand here."""
    authorize: str = ""
    token: str = ""
    userinfo: str | None = None
    subject: str = "sub"
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    extra: Mapping[str, str] = {}
    """Further parameters of its login page."""
    forbidden: tuple[str, ...] = ()
    """Values that stand for anybody's tenant: its issuer would not be one."""


PRESETS: Final[Mapping[str, Preset]] = {
    "github": Preset(
        authorize="https://github.com/login/oauth/authorize",
        token="https://github.com/login/oauth/access_token",
        userinfo="https://api.github.com/user",
        subject="id",  # a login can be given up, and be taken by somebody else
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
        # Without both there is no refresh token.
        extra={"access_type": "offline", "prompt": "consent"},
    ),
    "entra": Preset(
        config_url="https://login.microsoftonline.com/{tenant}/v2.0/.well-known/openid-configuration",
        subject="oid",  # `sub` is another one for each client
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
    """The row of a provider, with what the author has ``said`` in its place.

    Raises:
        ValueError: there is none, or something is left to be said.
    """
    row = PRESETS.get(name)
    if row is None:
        raise ValueError(f"there is no preset {name!r}: use one of {', '.join(PRESETS)}")
    words = [word for _, word, _, _ in Formatter().parse(row.config_url or "") if word]
    for word in words:
        value = said[word]
        if not value or value in row.forbidden:
            raise ValueError(f"the preset {name} needs {word}=…" + (f", not {value}" if value else ""))
    filled = {word: (said[word] or "").rstrip("/") for word in words}
    return replace(row, config_url=row.config_url and row.config_url.format(**filled))
