"""Tokens that a function accepts. For development."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..access import AccessToken
from ..auth import TokenVerifier


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
        said = self.validate(token)
        if not (await said if inspect.isawaitable(said) else said):
            return None
        return AccessToken(token=token, client_id=self.client_id, scopes=self.scopes)
