"""Logging in with Google."""

from typing import Any

from ..configuring import configured
from ..oidc_proxy import PresetProvider


class GoogleProvider(PresetProvider):
    """Users log in with Google."""

    preset = "google"

    @configured("GOOGLE", "client_id", "client_secret")
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
