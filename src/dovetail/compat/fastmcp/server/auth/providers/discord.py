"""Logging in with Discord."""

from typing import Any

from ..configuring import configured
from ..oidc_proxy import PresetProvider


class DiscordProvider(PresetProvider):
    """Users log in with Discord."""

    preset = "discord"

    @configured("DISCORD", "client_id", "client_secret")
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
