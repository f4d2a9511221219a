"""`IntrospectionVerifier`: verify opaque tokens at the authorization server (RFC 7662), with a cache."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ...core.principal import Principal
from ...settings import check_kinds
from ...settings.parameter_kinds import CLOCK, FLAG, MAPPING, SCOPES, SECONDS, TEXT, or_none
from ...transports.http.client.guarded_fetch import AddressGuard
from ..core import oauth_urls
from ..core.auth_errors import AuthError
from ..core.claims import ExpectedClaims, TokenRefused, principal_of
from ..core.client_authentication import basic_header
from ..core.scopes import Hierarchy
from .json_documents import fetch
from .verified_tokens import REFUSED_SECONDS, TOKENS_VERIFIED, VerifiedTokens
from .verifier import InvalidToken, Scope, Unavailable, Verifier

INTROSPECTION_SECONDS: Final = 60.0
"""Seconds for which a positive response is cached, at most until the token expires."""
INTROSPECTIONS: Final = 64
"""Concurrent requests to one introspection endpoint; further callers are asked to retry."""


class IntrospectionVerifier(Verifier):
    """Accepts tokens that the introspection ``endpoint`` reports as active and issued for ``audience``.

    A response is cached for ``ttl`` seconds, at most until the token expires. Concurrent requests with one
    token cause one introspection.

    Raises:
        ValueError: an argument is not valid.
    """

    proves = True

    def __init__(
        self,
        *,
        endpoint: str,
        client_id: str,
        client_secret: str,
        audience: str,
        issuer: str | None = None,
        exclusive: bool = False,
        scopes: str | Iterable[str] = (),
        implies: Mapping[str, str | Iterable[str]] | None = None,
        ttl: float = INTROSPECTION_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Set the endpoint and the credentials for it.

        Args:
            endpoint: The URL of the introspection endpoint (RFC 7662).
            client_id: The client id of this server at the authorization server.
            client_secret: The client secret of this server at the authorization server.
            audience: The audience that tokens must have: the URL of this server.
            issuer: The issuer that tokens must have.
            exclusive: Refuse tokens that have other audiences as well.
            scopes: Scopes that every caller needs.
            implies: Which scopes include other scopes.
            ttl: Seconds for which a positive response is cached, at most until the token expires.
        """
        check_kinds(
            {
                "endpoint": TEXT,
                "client_id": TEXT,
                "client_secret": TEXT,
                "audience": TEXT,
                "issuer": or_none(TEXT),
                "exclusive": FLAG,
                "scopes": SCOPES,
                "implies": or_none(MAPPING),
                "ttl": SECONDS,
                "clock": CLOCK,
            },
            locals(),
        )
        super().__init__(scopes=scopes)
        try:
            oauth_urls.secure(endpoint, "the endpoint", "server")
        except AuthError as error:
            raise ValueError(error.message) from None
        self.issuers, self.audience = () if issuer is None else (issuer,), audience
        self._endpoint = endpoint
        self._headers = {"Authorization": basic_header(client_id, client_secret)}
        self._guard = AddressGuard(endpoint, allow_private=True)
        self._expected = ExpectedClaims(issuer, audience, exclusive, Hierarchy(implies))
        self._ttl = ttl
        self._clock = clock
        self._verified, self._refused = VerifiedTokens(TOKENS_VERIFIED), VerifiedTokens(TOKENS_VERIFIED)
        self._asking: dict[str, asyncio.Task[Principal | None]] = {}

    async def verify(self, token: str, scope: Scope) -> Principal | None:
        now = self._clock()
        known = self._verified.find(token, now)
        if known is not None:
            return known[0]
        if self._refused.find(token, now) is not None:
            raise InvalidToken("the token is not active")
        task = self._asking.get(token)
        if task is None:
            # Unknown tokens only block other unknown tokens, not verified callers.
            if len(self._asking) >= INTROSPECTIONS and not self._verified.knew(token):
                raise Unavailable("too many concurrent introspection requests")
            task = self._asking[token] = asyncio.get_running_loop().create_task(self._ask(token))
            task.add_done_callback(lambda done: self._done(token, done))
        try:
            return await asyncio.shield(task)
        except TokenRefused as error:
            raise InvalidToken(str(error), kind=error.kind) from None

    def _done(self, token: str, task: asyncio.Task[Principal | None]) -> None:
        del self._asking[token]
        if not task.cancelled():
            task.exception()  # mark as retrieved

    async def _ask(self, token: str) -> Principal | None:
        form = {"token": token, "token_type_hint": "access_token"}
        claims = await fetch(self._endpoint, guard=self._guard, form=form, headers=self._headers)
        now = self._clock()
        try:
            if claims.get("active") is not True:
                raise TokenRefused("the token is not active")
            principal = principal_of(claims, self._expected, now, signed=False)
        except TokenRefused:
            self._refused.keep(token, None, now + REFUSED_SECONDS)
            raise
        until = now + self._ttl
        self._verified.keep(
            token, principal, until if principal.expires is None else min(until, principal.expires)
        )
        return principal
