"""Logging in with Auth0."""

from typing import Any

from ..oidc_proxy import OIDCProxy


class Auth0Provider(OIDCProxy):
    """Users log in with Auth0, for the API called ``audience`` there."""

    def __init__(self, *, audience: str, **options: Any) -> None:
        extra: dict[str, str] = {**(options.pop("extra_authorize_params", None) or {}), "audience": audience}
        super().__init__(extra_authorize_params=extra, **options)
