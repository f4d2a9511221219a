"""Tokens that the proxy issues to clients: issued, refreshed, revoked and verified. Provider tokens stay
here.

Codes and tokens are sealed records, so nothing is stored per token. They are valid as long as their login,
which is in the vault. A refresh token contains the renewal count of its login. A refresh token with another
count, or a code that is used twice, is a stolen copy and ends the login.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from ...core.principal import Principal
from ...errors import DovetailError
from ...stores.base import StoreError
from ..core.client_metadata import ProxyClient
from ..core.code_request import check_resource, parameters, proves
from ..core.oauth_error import Denial
from ..core.token_set import RENEWAL_MARGIN
from ..server.fair_eviction import FairEviction
from ..server.verified_tokens import TOKENS_VERIFIED, VerifiedTokens
from ..server.verifier import InvalidToken, Unavailable
from ..server.verifier_routes import PageAnswer, PageRequest
from .login_records import Code, Issued, Login
from .provider import IdentityProvider
from .proxy_login import ProxyUrls
from .proxy_pages import ANYBODY, json_answer
from .registered_clients import ProxyClients
from .sealed_records import SealedRecords
from .user_logins import REFRESH_SECONDS, Users, digest_of

LOGINS_KEPT: Final = 3_000
"""Logins that a proxy without a store keeps in memory. Beyond that, the least recently used login of the user
with most logins ends.
"""
ACCESS_SECONDS: Final = 3600.0
"""Lifetime of an access token in seconds, unless the provider's token ends before and cannot be renewed."""
REMEMBERED_SECONDS: Final = 10.0
"""Seconds for which a verified token is cached; revocations take effect at once."""
PROVIDER_LEASE: Final = 30.0
"""Lease in seconds for the renewal of a provider token by one process."""
RENEWAL_POLL: Final = 0.05
"""Polling interval in seconds while another process renews."""


log = logging.getLogger("dovetail.auth")
LOGIN: Final = "dovetail.login"
"""The claim that contains the login of a principal."""
_ENDED: Final = "oauth/ended"
_ACCESS, _REFRESH = "dta_", "dtr_"


class ProxyTokens:
    """The issued tokens of one proxy."""

    def __init__(
        self,
        place: ProxyUrls,
        vault: SealedRecords,
        clients: ProxyClients,
        provider: IdentityProvider,
        clock: Callable[[], float],
        *,
        bounded: bool,
    ) -> None:
        """Create the issuer. ``bounded``: the store is the memory of this process, with limited space."""
        self._place = place
        self._vault = vault
        self._clients = clients
        self._provider = provider
        self._clock = clock
        self._users = Users(vault)
        self._kept = FairEviction(LOGINS_KEPT) if bounded else None
        self._verified = VerifiedTokens(TOKENS_VERIFIED)
        self._endings = 0
        vault.store.subscribe(_ENDED, lambda _: self._forget_verified())

    # --- requests of clients
    # --------------------------------------------------------------------------------------------

    async def token(self, request: PageRequest) -> PageAnswer:
        return await self._answered(request, self._granted)

    async def revoke(self, request: PageRequest) -> PageAnswer:
        return await self._answered(request, self._revoked)

    async def _answered(
        self, request: PageRequest, answer: Callable[[ProxyClient, Mapping[str, str]], Any]
    ) -> PageAnswer:
        if request.method != "POST":
            return PageAnswer(405, headers=(*ANYBODY, ("allow", "POST")))
        try:
            form = parameters(request.body.decode("utf-8", "replace"))
            client = await self._clients.authenticated(form, request.headers.get("authorization"))
            return json_answer(await answer(client, form))
        except Denial as error:
            said = json_answer({"error": error.error, "error_description": error.description}, error.status)
            if error.status != 401:
                return said
            return msgspec.structs.replace(said, headers=(*said.headers, ("www-authenticate", "Basic")))
        except (Unavailable, StoreError):
            return json_answer({"error": "temporarily_unavailable"}, 503)

    async def _granted(self, client: ProxyClient, form: Mapping[str, str]) -> dict[str, Any]:
        check_resource(form.get("resource"), self._place.resource)
        if form.get("grant_type") == "authorization_code":
            return await self._redeemed(client, form)
        if form.get("grant_type") == "refresh_token":
            return await self._renewed(client, form)
        raise Denial("unsupported_grant_type", "grant_type must be authorization_code or refresh_token")

    async def _redeemed(self, client: ProxyClient, form: Mapping[str, str]) -> dict[str, Any]:
        code = self._vault.open("code", form.get("code", ""), Code)

        def spend(found: Login) -> Login:
            good = (
                found.challenge != ""
                and found.client_id == client.client_id
                and found.redirect_uri == form.get("redirect_uri", found.redirect_uri)
                and proves(form.get("code_verifier"), found.challenge)
            )
            if not good:
                raise Denial(
                    "invalid_grant", "the code was already used, or belongs to another client or login"
                )
            return msgspec.structs.replace(found, redirect_uri="", challenge="")

        login = None if code is None else await self._spent(code.login, spend)
        if code is None or login is None:
            raise Denial("invalid_grant", "the code is unknown or has expired")
        return await self._issued(code.login, login, login.scopes)

    async def _spent(self, id: str, spend: Callable[[Login], Login]) -> Login | None:
        """Apply ``spend`` to a login and mark it as used. Return None if it does not exist.

        Raises:
            Denial: the code or token is not valid.
        """
        try:
            login = await self._vault.change("login", id, Login, spend, REFRESH_SECONDS)
        except Denial:
            # RFC 6749, 4.1.2: a code used twice revokes its tokens; so does a wrong attempt. OAuth 2.1,
            # 4.3.1: of two holders of a refresh token one has stolen it.
            await self._end(id)
            raise
        if login is not None:
            await self._make_room(id, login)
        return login

    async def _make_room(self, id: str, login: Login) -> None:
        over = await self._users.used(id, login)
        if self._kept is not None and (one := self._kept.take(id, login.owner)) is not None:
            over.append(one)
        for one in over:
            await self._end(one)

    async def _renewed(self, client: ProxyClient, form: Mapping[str, str]) -> dict[str, Any]:
        known = self._open(_REFRESH, form.get("refresh_token", ""))
        if known is None or known.client_id != client.client_id:
            raise Denial("invalid_grant", "the refresh token is unknown or has expired")
        scopes = known.scopes
        if form.get("scope"):
            scopes = tuple(form["scope"].split())
            if not set(scopes) <= set(known.scopes):
                raise Denial("invalid_scope", "a refresh cannot add scopes")

        def spend(found: Login) -> Login:
            if found.serial != known.serial:
                raise Denial("invalid_grant", "the refresh token was already used")
            return msgspec.structs.replace(found, serial=found.serial + 1)

        login = await self.current(known.login)
        if login is not None:
            login = await self._spent(known.login, spend)
        if login is None:
            raise Denial("invalid_grant", "the login has ended")
        return await self._issued(known.login, login, scopes)

    async def _issued(self, id: str, login: Login, scopes: tuple[str, ...]) -> dict[str, Any]:
        now = self._clock()
        lifetime = ACCESS_SECONDS
        ends = login.tokens.expires_at
        if ends is not None and login.tokens.refresh_token is None:
            lifetime = min(lifetime, ends - now)
        if lifetime < 1:
            await self._end(id)
            raise Denial("invalid_grant", "the tokens of the provider have expired")
        issued = Issued(id, login.client_id, scopes, self._place.resource, now + lifetime, login.serial)
        return {
            "access_token": _ACCESS + self._vault.seal(_ACCESS, issued),
            "token_type": "Bearer",
            "expires_in": int(lifetime),
            "refresh_token": _REFRESH + self._vault.seal(_REFRESH, issued),
            "scope": " ".join(scopes),
        }

    def _open(self, kind: str, token: str) -> Issued | None:
        """Return the record of a token of this kind, or None."""
        found = self._vault.open(kind, token.removeprefix(kind), Issued) if token.startswith(kind) else None
        return found if found is not None and found.resource == self._place.resource else None

    async def _revoked(self, client: ProxyClient, form: Mapping[str, str]) -> dict[str, Any]:
        """Revoke a token (RFC 7009) together with its pair. Tokens of other clients count as unknown."""
        text = form.get("token", "")
        for kind in (_ACCESS, _REFRESH):
            found = self._open(kind, text)
            if found is not None and found.client_id == client.client_id:
                login = await self._vault.get("login", found.login, Login)
                await self._end(found.login)
                if login is not None:
                    await self._give_back(login)
        return {}

    async def _end(self, id: str) -> None:
        if self._kept is not None:
            self._kept.free(id)
        login = await self._vault.get("login", id, Login)
        if await self._vault.delete("login", id):
            self._forget_verified()
            await self._vault.store.publish(_ENDED, b"")
        if login is not None:
            await self._users.ended(id, login)

    def _forget_verified(self) -> None:
        self._endings += 1
        self._verified.clear()

    async def _give_back(self, login: Login) -> None:
        try:
            await self._provider.revoke(login.tokens)
        except Unavailable:
            log.warning("provider token not revoked after logout")

    # --- requests of the server
    # -------------------------------------------------------------------------------------------

    async def verify(self, token: str) -> Principal:
        """Return the principal of a token. Raises: InvalidToken."""
        now = self._clock()
        known = self._verified.find(token, now)
        if known is not None and known[0] is not None:
            return known[0]
        found, endings = self._open(_ACCESS, token), self._endings
        login = None if found is None else await self._vault.get("login", found.login, Login)
        if found is None or login is None or found.expires_at <= now:
            raise InvalidToken("the token is unknown, revoked or expired")
        claims = {**login.claims, "exp": found.expires_at, LOGIN: found.login}
        principal = Principal(login.subject, login.issuer, frozenset(found.scopes), claims, login.client_id)
        if endings == self._endings:  # else it may have been over before the store's answer was here
            self._verified.keep(token, principal, min(found.expires_at, now + REMEMBERED_SECONDS))
        return principal

    async def provider_token(self, principal: Principal) -> str:
        """Return the provider's token for ``principal``, renewed if needed.

        Raises:
            DovetailError: it has expired or was revoked.
        """
        id = principal.claims.get(LOGIN)
        if not isinstance(id, str):  # work that continues after the call has no claims
            issuer, client_id = principal.issuer or "", principal.client_id or ""
            id = await self._users.last(issuer, principal.subject, client_id) or ""
        login = await self.current(id)
        if login is None:
            raise DovetailError(
                "the login at the provider has ended; log in again", kind="authentication_failed"
            )
        return login.tokens.access_token

    async def current(self, id: str) -> Login | None:
        """Return a login with valid provider tokens; None if it has ended.

        Raises:
            Unavailable: the provider is unavailable.
        """
        login = await self._vault.get("login", id, Login)
        if login is None or not self._due(login):
            return login
        store, owner, key = self._vault.store, secrets.token_hex(8), f"oauth/renewing/{digest_of(id)[:40]}"
        while not await store.lease(key, owner, PROVIDER_LEASE):  # noqa: ASYNC110  maybe another process has it
            await asyncio.sleep(RENEWAL_POLL)
        try:
            login = await self._vault.get("login", id, Login)
            return login if login is None or not self._due(login) else await self._renewed_there(id, login)
        finally:
            await store.lease(key, owner, 0)

    async def _renewed_there(self, id: str, login: Login) -> Login | None:
        try:
            tokens = await self._provider.renew(login.tokens)
        except Denial as error:
            if error.error != "invalid_grant":
                raise Unavailable("the provider cannot renew its tokens now") from None
            await self._end(id)
            return None
        return await self._vault.change(
            "login", id, Login, lambda found: msgspec.structs.replace(found, tokens=tokens), REFRESH_SECONDS
        )

    def _due(self, login: Login) -> bool:
        tokens = login.tokens
        if tokens.expires_at is None or tokens.refresh_token is None:
            return False
        return self._clock() >= tokens.expires_at - min(RENEWAL_MARGIN, tokens.lifetime / 10)
