"""Logging in with Microsoft Entra (Azure)."""

from typing import Any

from ..oidc_proxy import PresetProvider


class AzureProvider(PresetProvider):
    """Users of one tenant log in with Microsoft Entra."""

    preset = "entra"

    def __init__(
        self, *, tenant_id: str, required_scopes: list[str] | None = None, identifier_uri: str | None = None,
        additional_authorize_scopes: list[str] | None = None, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(**options)
        self._place["tenant"] = tenant_id
        owner = identifier_uri or f"api://{self._client[0]}"
        wanted = [one if "://" in one else f"{owner}/{one}" for one in required_scopes or ()]
        if wanted or additional_authorize_scopes:
            usual = ["openid", "profile", "email", "offline_access"]
            self._settings["provider_scopes"] = [*usual, *wanted, *(additional_authorize_scopes or ())]
