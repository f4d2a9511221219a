"""`OAuth`: a user of FastMCP's client logs in with a browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from .....auth.client.authorizer import Authorizer
from .....auth.client.browser import Browser, open_browser
from .....auth.client.storage import MemoryTokens, TokenStorage
from .....auth.core.grants import AuthorizationCode
from .....auth.core.registration import Identity
from .... import serving


class OAuth(Authorizer):
    """An ``auth=`` for `Client`: opens a browser, and waits for it on a port of this machine.

    Tokens are kept as long as the process, or in a storage of `dovetail.auth`.

    Raises:
        ValueError: ``token_storage`` is none of those, and would not be written to.
    """

    def __init__(
        self, mcp_url: str | None = None, scopes: str | Sequence[str] | None = None,
        client_name: str = "FastMCP Client", token_storage: Any = None,
        additional_client_metadata: Mapping[str, Any] | None = None, callback_port: int | None = None,
        httpx_client_factory: Any = None, client_id: str | None = None, client_secret: str | None = None,
        client_metadata_url: str | None = None,
    ) -> None:  # fmt: skip
        if token_storage is not None and not isinstance(token_storage, TokenStorage):
            raise ValueError("token_storage= is not written to: give a storage of dovetail.auth, or none")
        identity = Identity(
            client_id=client_id, client_secret=client_secret, client_metadata_url=client_metadata_url,
            client_name=client_name, metadata=additional_client_metadata or {},
        )  # fmt: skip
        super().__init__(
            AuthorizationCode(identity), scopes=scopes or None, store=token_storage or MemoryTokens(),
            allow_private=not serving.strict(), user=partial(Browser, callback_port or 0, open_browser),
        )  # fmt: skip
        self.mcp_url = mcp_url
