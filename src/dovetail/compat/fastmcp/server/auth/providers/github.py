"""Logging in with GitHub."""

from typing import Any

from ..configuring import configured
from ..oidc_proxy import PresetProvider


class GitHubProvider(PresetProvider):
    """Users log in with GitHub."""

    preset = "github"

    @configured("GITHUB", "client_id", "client_secret")
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
