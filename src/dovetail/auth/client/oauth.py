"""`OAuth`: log in with a browser, for ``Client(url, auth="oauth")``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...settings import check_kinds
from ...settings.parameter_kinds import FLAG, FUNCTION, SCOPES, TEXT, WHOLE, or_none
from ..core import oauth_urls
from ..core.grants import AuthorizationCode
from ..core.registration import Identity, check_document_url
from .authorizer import Authorizer
from .browser import Browser, Hook, open_browser
from .flow_runner import User
from .storage import STORAGE, TokenStorage, TokenStore


class OAuth(Authorizer):
    """OAuth 2.1 with authorization code and PKCE.

    Without options the client registers itself if the server supports it. ``client_id`` (and
    ``client_secret``) is a client registered by hand; with ``issuer`` it is sent to no other issuer.
    ``client_metadata_url`` is the URL of a Client ID Metadata Document. ``open_browser`` opens the login
    page; None prints its URL to stderr. The browser returns to ``redirect_port`` of 127.0.0.1 (0: any free
    port). Alternatively ``authorize`` gets the URL of the page and returns the URL of the redirect, which
    starts with ``redirect_uri``. Tokens are kept in ``store``, by default in files of the user.
    ``allow_private`` allows a public server to name an authorization server in a private network.

    Raises:
        ValueError: a scope or a URL is not valid.
    """

    def __init__(
        self,
        client_id: str | None = None,
        client_secret: str | None = None,
        client_metadata_url: str | None = None,
        scopes: str | Sequence[str] | None = None,
        store: TokenStorage | None = None,
        redirect_port: int = 0,
        open_browser: Callable[[str], Any] | None = open_browser,
        allow_private: bool = False,
        *,
        issuer: str | None = None,
        client_name: str = "Dovetail",
        redirect_uri: str | None = None,
        authorize: Callable[[str], Any] | None = None,
    ) -> None:
        """Set how to log in. All options have defaults.

        Args:
            client_id: The client id; by default the client registers itself.
            client_secret: The client secret.
            client_metadata_url: The URL of a Client ID Metadata Document of yours.
            scopes: Scopes to request; by default those that the server asks for.
            store: Where tokens are stored; by default files of the user.
            redirect_port: The port on 127.0.0.1 to which the browser returns; 0: any free port.
            open_browser: The function that opens the login page; ``None`` prints its URL to stderr.
            allow_private: Whether a public server can name an authorization server in a private network.
            issuer: The issuer to which these credentials belong. Other issuers never receive them.
            client_name: The name of the application on the login page.
            redirect_uri: The redirect URI, for use with ``authorize``.
            authorize: A function that receives the URL of the login page and returns the URL to which the
                browser was redirected.
        """
        check_kinds(
            {
                "client_id": or_none(TEXT),
                "client_secret": or_none(TEXT),
                "client_metadata_url": or_none(TEXT),
                "redirect_port": WHOLE,
                "open_browser": or_none(FUNCTION),
                "client_name": TEXT,
                "redirect_uri": or_none(TEXT),
                "authorize": or_none(FUNCTION),
                "scopes": or_none(SCOPES),
                "store": STORAGE,
                "issuer": or_none(TEXT),
                "allow_private": FLAG,
            },
            locals(),
        )
        if client_metadata_url is not None:
            check_document_url(client_metadata_url)
        user: Callable[[], User] = partial(Browser, redirect_port, open_browser)
        if redirect_uri is not None and authorize is not None:
            oauth_urls.secure(redirect_uri, "redirect_uri", "client")
            user = partial(Hook, authorize, redirect_uri)
        elif redirect_uri is not None or authorize is not None:
            raise ValueError("give both redirect_uri and authorize, or neither")
        identity = Identity(
            client_id=client_id,
            client_secret=client_secret,
            client_metadata_url=client_metadata_url,
            client_name=client_name,
            issuer=issuer,
        )

        super().__init__(
            AuthorizationCode(identity),
            scopes=scopes,
            store=TokenStore() if store is None else store,
            allow_private=allow_private,
            user=user,
        )
