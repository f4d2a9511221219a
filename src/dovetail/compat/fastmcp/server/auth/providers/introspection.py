"""Tokens that their authorization server is asked about (RFC 7662)."""

from __future__ import annotations

import logging
import time
from base64 import b64encode
from typing import Any

from ......auth.client.guarding import AddressGuard
from ......auth.server.documents import fetch
from ......auth.server.verifier import Unavailable
from ..access import AccessToken
from ..auth import TokenVerifier
from ..configuring import configured
from .jwt import scopes_in

log = logging.getLogger("fastmcp")


class IntrospectionTokenVerifier(TokenVerifier):
    """Accepts what the endpoint at ``introspection_url`` calls active."""

    @configured("INTROSPECTION", "introspection_url", "client_id", "client_secret")
    def __init__(
        self, *, introspection_url: str, client_id: str, client_secret: str, timeout_seconds: int = 10,
        required_scopes: list[str] | None = None, base_url: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(base_url, required_scopes)
        self.introspection_url, self.timeout_seconds = introspection_url, timeout_seconds
        self.client_id, self.client_secret = client_id, client_secret
        self._guard = AddressGuard(introspection_url, allow_private=True)

    async def verify_token(self, token: str) -> Any:
        secret = b64encode(f"{self.client_id}:{self.client_secret}".encode()).decode()
        form = {"token": token, "token_type_hint": "access_token"}
        try:
            said = await fetch(
                self.introspection_url,
                guard=self._guard,
                form=form,
                headers={"Authorization": f"Basic {secret}"},
            )
        except Unavailable as error:
            log.debug("a token cannot be asked about: %s", error)
            return None
        expires, scopes = said.get("exp"), scopes_in(said)
        over = isinstance(expires, int | float) and expires < time.time()
        if said.get("active") is not True or over or not set(self.required_scopes) <= set(scopes):
            return None
        client = said.get("client_id") or said.get("sub", "unknown")
        expires_at = int(expires) if expires else None
        return AccessToken(
            token=token, client_id=str(client), scopes=scopes, expires_at=expires_at, claims=said
        )
