"""Logging in with Microsoft Entra (Azure)."""

from typing import Any

from ..configuring import configured
from ..oidc_proxy import PresetProvider

OIDC_SCOPES = frozenset({"openid", "profile", "email", "offline_access"})
"""Scopes of OpenID Connect, which belong to no application."""


class AzureProvider(PresetProvider):
    """Users of one tenant log in with Microsoft Entra."""

    preset = "entra"

    @configured("AZURE", "client_id", "client_secret", "tenant_id")
    def __init__(
        self, *, tenant_id: str, required_scopes: list[str] | None = None, identifier_uri: str | None = None,
        additional_authorize_scopes: list[str] | None = None, **options: Any,
    ) -> None:  # fmt: skip
        if not required_scopes:
            raise ValueError("required_scopes must include at least one scope")
        super().__init__(**options)
        self._place["tenant"] = tenant_id
        owner = identifier_uri or f"api://{self._client[0]}"
        wanted = [
            one if "://" in one or one in OIDC_SCOPES else f"{owner}/{one}" for one in required_scopes or ()
        ]
        if wanted or additional_authorize_scopes:
            usual = ["openid", "profile", "email", "offline_access"]
            self._settings["provider_scopes"] = [*usual, *wanted, *(additional_authorize_scopes or ())]
