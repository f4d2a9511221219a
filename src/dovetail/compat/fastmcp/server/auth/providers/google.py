"""Logging in with Google."""

from ..oidc_proxy import PresetProvider


class GoogleProvider(PresetProvider):
    """Users log in with Google."""

    preset = "google"
