"""Logging in with Auth0."""

from typing import Any

from ..oidc_proxy import OIDCProxy


class Auth0Provider(OIDCProxy):
    """Users log in with Auth0, for the API called ``audience`` there."""

    def __init__(self, *, audience: str, **options: Any) -> None:
        super().__init__(audience=audience, **options)
