"""Logging in with Auth0."""

from typing import Any

from ..configuring import configured
from ..oidc_proxy import OIDCProxy


class Auth0Provider(OIDCProxy):
    """Users log in with Auth0, for the API called ``audience`` there."""

    @configured("AUTH0", "config_url", "client_id", "client_secret", "audience", "base_url")
    def __init__(self, *, config_url: Any, audience: str, **options: Any) -> None:
        super().__init__(config_url=config_url, audience=audience, **options)
