"""`Authorizer`: the common part of all logins: tokens per server, renewal, and one refresh at a time.

``Client(auth=…)`` accepts an `Authorizer`. The transport asks it for headers before each request and reports
each 401 and 403; `auth.core.flow` decides what to do then.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakKeyDictionary

from ...client.auth import AuthRequest
from ...client.http_client import Send
from ...transports.http.client.guarded_fetch import AddressGuard
from ..core import combined_challenge as demands
from ..core.auth_errors import AuthError
from ..core.combined_challenge import Demand
from ..core.flow import HeldTokens, log_in, log_out, recall, renew, server_key
from ..core.grants import Grant
from ..core.resource import canonical
from ..core.scopes import scope_list
from ..core.steps import Flow, Progress, Prover
from .flow_runner import FlowRunner, T, User
from .storage import MemoryTokens, TokenStorage

LOGIN_PAUSE: Final = 60.0
"""Seconds after a failed login in which calls do not open the browser again but fail with the same error."""
STEP_UPS: Final = 2
"""Attempts to request the same scopes because a server reports them as insufficient."""
STEP_UPS_KEPT: Final = 64
"""Different scope sets that a server may request one after the other."""
SERVERS_AUTHORIZED: Final = 1000
"""Servers that one authorizer remembers; the least recently used is dropped."""


class World:
    """The system's clock and random numbers."""

    def __init__(self, prover: Prover | None) -> None:
        self.prover = prover

    def now(self) -> float:
        return time.time()

    def random(self) -> str:
        return secrets.token_urlsafe(32)


class _Server:
    """The state of one server."""

    def __init__(self, url: str, *, allow_private: bool) -> None:
        self.url = url
        self.guard = AddressGuard(url, allow_private=allow_private)
        self.held: HeldTokens | None = None
        self.recalled = False
        self.refusal: tuple[AuthError, float] | None = None
        """The error of the last failed login, and until when it is repeated without asking the user."""
        self.step_ups: dict[frozenset[str], int] = {}
        self.locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    @property
    def lock(self) -> asyncio.Lock:
        """Return the lock of this event loop: clients in several threads may share an authorizer."""
        return self.locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())


class Authorizer:
    """Authorizes requests with tokens obtained by ``grant``. ``follow`` is called with each step of a flow."""

    def __init__(
        self,
        grant: Grant,
        *,
        scopes: str | Sequence[str] | None = None,
        store: TokenStorage | None = None,
        allow_private: bool = False,
        user: Callable[[], User] | None = None,
        follow: Callable[[Progress], None] | None = None,
    ) -> None:
        self.store: TokenStorage = MemoryTokens() if store is None else store
        self.follow = follow
        self._grant = grant
        self._scopes = None if scopes is None else scope_list(scopes)
        self._allow_private = allow_private
        self._user = user
        self._servers: dict[str, _Server] = {}

    # --- used by the transport
    # ----------------------------------------------------------------------------------------

    async def authorize(self, request: AuthRequest) -> Mapping[str, str]:
        """Return the headers for one request; empty without a token."""
        held = await self.current(request)
        return {} if held is None else {"Authorization": f"Bearer {held.tokens.access_token}"}

    async def answered(
        self, request: AuthRequest, sent: Mapping[str, str], status: int, headers: Mapping[str, str]
    ) -> bool:
        """Handle a 401 or 403. Return True if there is a better token now.

        Raises:
            AuthError: no token could be obtained.
        """
        if status not in (401, 403):
            return False
        demand = demands.read(headers.get("WWW-Authenticate"))
        return await self.challenged(request, sent.get("Authorization", ""), status, demand)

    # --- tokens -----------------------------------------------------------------------------------------------------

    async def current(self, request: AuthRequest, prover: Prover | None = None) -> HeldTokens | None:
        """Return the token to send, renewed if it expires soon; None if a user is needed."""
        server = self._server(request.url)
        held = server.held
        if held is None and not server.recalled:
            held = await self._recall(server, request.send)
        if held is None or not held.tokens.due(time.time()):
            return held
        async with self._alone(server):
            await self._catch_up(server, held, request.send)
            if server.held is held:
                server.held = await self._renewed(server, held, request.send, prover)
            return server.held

    async def challenged(
        self, request: AuthRequest, sent: str, status: int, demand: Demand, prover: Prover | None = None
    ) -> bool:
        """Answer the challenge to a request that was sent with the ``Authorization`` header ``sent``."""
        more = status == 403
        if more and demand.error != "insufficient_scope":
            return False
        server = self._server(request.url)
        async with self._alone(server):
            await self._catch_up(server, server.held, request.send)
            held = server.held
            sent_before = held is None or sent.endswith(f" {held.tokens.access_token}")
            if held is not None and not sent_before and not held.tokens.due(time.time()):
                return True  # another call or process has renewed it meanwhile
            if server.refusal is not None and time.monotonic() < server.refusal[1]:
                raise server.refusal[0]
            if more and not self._may_step_up(server, demand):
                return False
            flow = log_in(server.url, demand, held, self._grant, self._scopes, World(prover), more=more)
            server.held = None
            server.held = await self._run(server, flow, request.send)
        return True

    async def log_in(self, url: str, send: Send, demand: Demand, prover: Prover | None = None) -> HeldTokens:
        """Log in to the server at ``url``, even if tokens are stored for it.

        Raises:
            AuthError: the login failed.
        """
        server = self._server(url)
        async with self._alone(server):
            flow = log_in(server.url, demand, None, self._grant, self._scopes, World(prover))
            server.held = await self._run(server, flow, send)
            server.recalled = True
            return server.held

    async def held(self, url: str, send: Send) -> HeldTokens | None:
        """Return the tokens stored for the server at ``url``, even if expired."""
        return await self._recall(self._server(url), send)

    async def log_out(self, url: str, send: Send) -> bool | None:
        """Remove the tokens for ``url`` and revoke them. Return whether they were revoked; None without
        tokens.
        """
        server = self._server(url)
        async with self._alone(server):
            held = await self._recall(server, send)
            if held is None:
                return None
            server.held = None
            return await self._run(server, log_out(server.url, held, self._grant, World(None)), send)

    # --- internal
    # ---------------------------------------------------------------------------------------------------------

    def _server(self, url: str) -> _Server:
        server = self._servers.pop(url, None)
        if server is None:
            address = f"http{url[2:]}" if url.startswith(("ws://", "wss://")) else url
            server = _Server(canonical(address), allow_private=self._allow_private)
            if len(self._servers) >= SERVERS_AUTHORIZED:
                del self._servers[next(iter(self._servers))]
        self._servers[url] = server
        return server

    @asynccontextmanager
    async def _alone(self, server: _Server) -> AsyncGenerator[None]:
        """Hold the lock for a renewal, in this process and across processes with the same store."""
        async with server.lock, self.store.lock(server_key(server.url)):
            yield

    async def _run(self, server: _Server, flow: Flow[T], send: Send) -> T:
        user = None if self._user is None else self._user()
        driver = FlowRunner(send, self.store, server.guard, user, self.follow)
        try:
            found = await driver.run(flow)
        except AuthError as error:
            if driver.asked_user:
                server.refusal = error, time.monotonic() + LOGIN_PAUSE
            raise
        if driver.asked_user:
            server.refusal = None
        return found

    async def _recall(self, server: _Server, send: Send) -> HeldTokens | None:
        found = await self._run(server, recall(server.url, self._grant.identity), send)
        server.held, server.recalled = found, True
        return found

    async def _catch_up(self, server: _Server, held: HeldTokens | None, send: Send) -> None:
        """Reload the tokens if another process has renewed them."""
        found = await self._run(server, recall(server.url, self._grant.identity), send)
        if found is not None and (held is None or found.tokens != held.tokens):
            server.held = found

    async def _renewed(
        self, server: _Server, held: HeldTokens, send: Send, prover: Prover | None
    ) -> HeldTokens | None:
        try:
            return await self._run(server, renew(server.url, held, self._grant, World(prover)), send)
        except AuthError as error:
            if self._grant.silent or held.tokens.expires_at is None or time.time() >= held.tokens.expires_at:
                raise
            if self.follow is not None:
                self.follow(Progress("token", f"not renewed yet: {error.message}"))
            return held  # the old token is still valid for a moment

    def _may_step_up(self, server: _Server, demand: Demand) -> bool:
        """Return whether another step-up is allowed.

        Authorization 2025-11-25: clients SHOULD limit the attempts for the same resource and operation.
        """
        wanted = frozenset(demand.scopes or ())
        tried = server.step_ups.get(wanted, 0)
        if tried >= STEP_UPS or (tried == 0 and len(server.step_ups) >= STEP_UPS_KEPT):
            return False
        server.step_ups[wanted] = tried + 1
        return True
