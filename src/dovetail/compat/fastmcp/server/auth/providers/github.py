"""Logging in with GitHub."""

from ..oidc_proxy import PresetProvider


class GitHubProvider(PresetProvider):
    """Users log in with GitHub."""

    preset = "github"
