"""`TokenExchange`: call an upstream on behalf of the caller, with an exchanged token (RFC 8693)."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from ...client.auth import AuthRequest
from ...settings import check_kinds
from ...settings.parameter_kinds import FLAG, SCOPES, SECONDS, TEXT, or_none
from ...transports.http.client.guarded_fetch import AddressGuard
from ..core import oauth_urls
from ..core.auth_errors import AuthError
from ..core.registration import NONE, SECRET_BASIC, SECRET_POST, Identity
from ..core.resource import canonical
from ..core.scopes import scope_list
from ..core.token_exchange import ExchangeEndpoint, exchange, find_endpoint, known_endpoint
from ..core.token_set import Tokens
from .authorizer import World
from .flow_runner import AUTHORIZATION_SECONDS, FlowRunner
from .storage import MemoryTokens

EXCHANGED_SECONDS: Final = 300.0
"""Lifetime in seconds of an exchanged token without an expiry."""
REFUSALS_KEPT: Final = 1000
"""Callers' tokens whose exchange was refused, remembered for `REFUSED_SECONDS`."""
REFUSED_SECONDS: Final = 10.0
"""Seconds for which a refusal is remembered, so that repeated requests do not reach the authorization server.
"""


_METHODS = (NONE, SECRET_BASIC, SECRET_POST)


class TokenExchange:
    """Exchanges the token of each caller for one of an upstream: ``Proxy(url, auth=TokenExchange(…))``.

    Tokens are exchanged at ``token_endpoint``, or at the one in the metadata of ``issuer``, as the client
    ``client_id``. They are for ``audience`` or ``resource``; the default resource is the URL of the upstream.
    ``timeout`` (seconds) limits an exchange. ``allow_private`` allows a public issuer to name an endpoint in
    a private network.

    Raises:
        ValueError: neither or both endpoints are given, or a URL, scope or method is not valid.
    """

    def __init__(
        self,
        *,
        client_id: str,
        client_secret: str | None = None,
        token_endpoint: str | None = None,
        issuer: str | None = None,
        audience: str | None = None,
        resource: str | None = None,
        scopes: str | Sequence[str] = (),
        token_endpoint_auth_method: str | None = None,
        timeout: float = AUTHORIZATION_SECONDS,
        allow_private: bool = False,
    ) -> None:
        """Set where to exchange tokens, and for which audience.

        Args:
            client_id: The client id of this server at the authorization server.
            client_secret: The client secret of this server at the authorization server.
            token_endpoint: The URL of the token endpoint; or use ``issuer``.
            issuer: The issuer whose metadata names the token endpoint; or use ``token_endpoint``.
            audience: The audience of the new tokens.
            resource: The resource of the new tokens; by default the URL of the upstream server.
            scopes: The scopes of the new tokens.
            token_endpoint_auth_method: How to authenticate: "client_secret_basic", "client_secret_post" or
                "none".
            timeout: Seconds that one exchange can take.
            allow_private: Whether a public issuer can name an endpoint in a private network.
        """
        check_kinds(
            {
                "client_id": TEXT,
                "client_secret": or_none(TEXT),
                "token_endpoint": or_none(TEXT),
                "issuer": or_none(TEXT),
                "audience": or_none(TEXT),
                "resource": or_none(TEXT),
                "token_endpoint_auth_method": or_none(TEXT),
                "scopes": SCOPES,
                "timeout": SECONDS,
                "allow_private": FLAG,
            },
            locals(),
        )
        method = token_endpoint_auth_method
        if (token_endpoint is None) == (issuer is None):
            raise ValueError("give either token_endpoint or issuer")
        if method is not None and method not in _METHODS:
            raise ValueError(f"token_endpoint_auth_method must be one of {', '.join(_METHODS)}")
        place = token_endpoint or issuer or ""
        try:
            oauth_urls.secure(place, "token_endpoint" if issuer is None else "issuer", "client")
        except AuthError as error:
            raise ValueError(error.message) from None
        self._identity = Identity(
            client_id=client_id, client_secret=client_secret, issuer=issuer, method=method
        )
        self._issuer = issuer
        self._endpoint: ExchangeEndpoint | None = (
            None if token_endpoint is None else known_endpoint(token_endpoint, self._identity)
        )
        named = {"audience": audience, "resource": resource, "scope": " ".join(scope_list(scopes))}
        self._wanted = {name: value for name, value in named.items() if value}
        self._timeout = timeout
        self._guard = AddressGuard(place, allow_private=allow_private)
        self._refused: OrderedDict[bytes, tuple[AuthError, float]] = OrderedDict()

    async def obtain(self, subject: str, request: AuthRequest) -> Tokens:
        """Return a token for the server of ``request`` on behalf of the owner of ``subject``.

        Raises:
            AuthError: the exchange failed. A refusal is cached for a while.
        """
        key = hashlib.sha256(subject.encode()).digest()
        refusal, until = self._refused.get(key, (None, 0.0))
        if refusal is not None and time.monotonic() < until:
            raise refusal
        try:
            async with asyncio.timeout(self._timeout):
                return await self._obtain(subject, request)
        except TimeoutError:
            where = oauth_urls.origin(self._issuer or "" if self._endpoint is None else self._endpoint.url)
            text = f"the token exchange ({where}): no response within {self._timeout:g} s"
            raise AuthError(text, fault="authorization server") from None
        except AuthError as error:
            if error.error is not None:
                self._refused[key] = error, time.monotonic() + REFUSED_SECONDS
                if len(self._refused) > REFUSALS_KEPT:
                    self._refused.popitem(last=False)
            raise

    async def _obtain(self, subject: str, request: AuthRequest) -> Tokens:
        driver = FlowRunner(request.send, MemoryTokens(), self._guard)
        if self._endpoint is None:
            self._endpoint = await driver.run(find_endpoint(self._issuer or "", self._identity))
        wanted = self._wanted
        if not wanted.keys() & {"audience", "resource"}:
            url = request.url
            wanted = wanted | {"resource": canonical(f"http{url[2:]}" if url.startswith("ws") else url)}
        world = World(None)
        tokens = await driver.run(exchange(self._endpoint, subject, wanted, world))
        if tokens.expires_at is None:
            tokens = replace(tokens, expires_at=world.now() + EXCHANGED_SECONDS, lifetime=EXCHANGED_SECONDS)
        return tokens


class ExchangedToken:
    """The authorization of the connection of one caller. Its tokens are kept in memory only."""

    def __init__(self, exchange: TokenExchange, subject: str) -> None:
        self._exchange = exchange
        self.subject = subject
        """The caller's latest token: the next exchange needs a valid one."""
        self._tokens: Tokens | None = None
        self._sent = 0
        """Requests that were sent with it."""
        self._lock = asyncio.Lock()

    async def authorize(self, request: AuthRequest) -> Mapping[str, str]:
        """Return the header for one request. Concurrent requests wait for the same exchange."""
        tokens = self._tokens
        if tokens is None or tokens.due(time.time()):
            async with self._lock:
                tokens = self._tokens
                if tokens is None or tokens.due(time.time()):
                    tokens = self._tokens = await self._exchange.obtain(self.subject, request)
                    self._sent = 0
        self._sent += 1
        return {"Authorization": f"Bearer {tokens.access_token}"}

    async def answered(
        self, request: AuthRequest, sent: Mapping[str, str], status: int, headers: Mapping[str, str]
    ) -> bool:
        """Exchange the token again after a 401, once.

        Raises:
            AuthError: the server rejected the new token.
        """
        if status != 401:
            return False
        tokens = self._tokens
        if tokens is not None and sent.get("Authorization") == f"Bearer {tokens.access_token}":
            self._tokens = None
            if self._sent <= 1:
                raise AuthError(
                    "the server rejected the exchanged token",
                    fault="client",
                    advice="check the audience or resource of the exchange",
                )
        return True
