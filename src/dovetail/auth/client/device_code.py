"""`DeviceCode`: log in with a browser on another device, for programs without a browser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...settings import check_kinds
from ...settings.parameter_kinds import FLAG, FUNCTION, SCOPES, TEXT, or_none
from ..core.grants import DEVICE, Device
from ..core.registration import Identity
from .authorizer import Authorizer
from .browser import Screen
from .storage import STORAGE, TokenStorage, TokenStore


class DeviceCode(Authorizer):
    """The device authorization grant (RFC 8628). ``show`` gets the text with the URL and the code for the
    user.

    Without ``client_id`` the client registers itself if the server supports it.
    """

    def __init__(
        self,
        client_id: str | None = None,
        client_secret: str | None = None,
        *,
        scopes: str | Sequence[str] | None = None,
        show: Callable[[str], Any] = print,
        store: TokenStorage | None = None,
        issuer: str | None = None,
        allow_private: bool = False,
    ) -> None:
        """Set how to show the code.

        Args:
            client_id: The client id; by default the client registers itself.
            client_secret: The client secret.
            scopes: Scopes to request; by default those that the server asks for.
            show: The function that receives the text for the user: the URL and the code.
            store: Where tokens are stored; by default files of the user.
            issuer: The issuer to which these credentials belong. Other issuers never receive them.
            allow_private: Whether a public server can name an authorization server in a private network.
        """
        check_kinds(
            {
                "client_id": or_none(TEXT),
                "client_secret": or_none(TEXT),
                "show": FUNCTION,
                "scopes": or_none(SCOPES),
                "store": STORAGE,
                "issuer": or_none(TEXT),
                "allow_private": FLAG,
            },
            locals(),
        )
        identity = Identity(
            client_id=client_id,
            client_secret=client_secret,
            issuer=issuer,
            grant_types=(DEVICE, "refresh_token"),
        )
        super().__init__(
            Device(identity),
            scopes=scopes,
            store=TokenStore() if store is None else store,
            allow_private=allow_private,
            user=lambda: Screen(show),
        )
