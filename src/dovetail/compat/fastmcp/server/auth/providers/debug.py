"""Tokens that a function accepts. For development."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

from ..access import AccessToken
from ..auth import TokenVerifier

log = logging.getLogger("fastmcp")


class DebugTokenVerifier(TokenVerifier):
    """Accepts what ``validate`` accepts: without one, every token that is not empty."""

    def __init__(
        self,
        validate: Callable[[str], Any] = lambda token: True,
        client_id: str = "debug-client",
        scopes: list[str] | None = None,
        required_scopes: list[str] | None = None,
    ) -> None:
        super().__init__(None, required_scopes)
        self.validate, self.client_id, self.scopes = validate, client_id, scopes or []

    async def verify_token(self, token: str) -> Any:
        if not token.strip():
            return None
        try:
            said = self.validate(token)
            good = await said if inspect.isawaitable(said) else said
        except Exception:
            log.debug("a token could not be verified", exc_info=True)
            return None
        if not good:
            return None
        return AccessToken(token=token, client_id=self.client_id, scopes=self.scopes, claims={"token": token})
