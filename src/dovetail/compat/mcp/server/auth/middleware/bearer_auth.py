"""Tokens in applications of Starlette: who sends a request, and what is said to those who may not."""

from __future__ import annotations

import time
from typing import Any

from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse

from ......auth.core.challenge import bearer, write
from ....shared.auth_utils import check_resource_allowed
from ..provider import AccessToken, TokenVerifier


class AuthenticatedUser(SimpleUser):
    """Whoever has shown a token that is good."""

    def __init__(self, auth_info: AccessToken) -> None:
        super().__init__(auth_info.client_id)
        self.access_token, self.scopes = auth_info, auth_info.scopes


class BearerAuthBackend(AuthenticationBackend):
    """For ``AuthenticationMiddleware``: asks ``token_verifier`` about the token in the header."""

    def __init__(self, token_verifier: TokenVerifier, *, resource_server_url: Any = None) -> None:
        self.token_verifier, self._resource = token_verifier, resource_server_url

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, AuthenticatedUser] | None:
        scheme, _, token = conn.headers.get("authorization", "").partition(" ")
        found = await self.token_verifier.verify_token(token.strip()) if scheme.lower() == "bearer" else None
        if found is None or (found.expires_at and found.expires_at < time.time()):
            return None
        meant, ours = found.resource, self._resource
        if meant and ours is not None and not check_resource_allowed(meant, str(ours)):
            return None
        return AuthCredentials(found.scopes), AuthenticatedUser(found)


class RequireAuthMiddleware:
    """Lets in whoever `BearerAuthBackend` knows and has all of ``required_scopes``."""

    def __init__(self, app: Any, required_scopes: list[str], resource_metadata_url: Any = None) -> None:
        self.app, self.required_scopes, self._where = app, required_scopes, resource_metadata_url

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        app = self.app
        if not isinstance(scope.get("user"), AuthenticatedUser):
            app = self._refused(401, "invalid_token", "Authentication required")
        elif missing := set(self.required_scopes) - set(scope["auth"].scopes):
            app = self._refused(403, "insufficient_scope", f"Required scope: {min(missing)}")
        await app(scope, receive, send)

    def _refused(self, status: int, error: str, description: str) -> Any:
        where = None if self._where is None else str(self._where)
        said = write(bearer(resource_metadata=where, error=error, description=description))
        body = {"error": error, "error_description": description}
        return JSONResponse(body, status, {"www-authenticate": said})
