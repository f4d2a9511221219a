"""What clients get in the end: tokens of our own, renewed, revoked and recognised. The provider's stay here.

Codes and tokens are what they stand for, sealed: nothing of them is kept, however often a client renews. They are good
as long as their login, which lies in the vault. A refresh token has the number that the login has come to; one with
another number, like a code that comes a second time, is somebody's copy, and ends the login.
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
from ..server.fair_eviction import FairPlaces
from ..server.verified_tokens import TOKENS_VERIFIED, VerifiedTokens
from ..server.verifier import InvalidToken, Unavailable
from ..server.verifier_routes import PageAnswer, PageRequest
from .login_records import Code, Issued, Login
from .provider import Provider
from .proxy_login import Place
from .proxy_pages import ANYBODY, json_answer
from .registered_clients import ProxyClients
from .sealed_records import Vault
from .user_logins import REFRESH_SECONDS, Users, digest_of

LOGINS_KEPT: Final = 3_000
"""Logins that a proxy without a store keeps in its memory; of one more the one used longest ago is over of the user
who has most."""
ACCESS_SECONDS: Final = 3600.0
"""Seconds that an access token of ours lives, unless the provider's ends before and cannot be renewed."""
REMEMBERED_SECONDS: Final = 10.0
"""Seconds for which a token of ours is believed without a look into the store; revocations are told at once."""
PROVIDER_LEASE: Final = 30.0
"""Seconds for which one process alone renews what the provider gave for a login."""
RENEWAL_POLL: Final = 0.05
"""Seconds between two looks whether it has."""


log = logging.getLogger("dovetail.auth")
LOGIN: Final = "dovetail.login"
"""The claim that says which login a principal came by."""
_ENDED: Final = "oauth/ended"
_ACCESS, _REFRESH = "dta_", "dtr_"


class ProxyTokens:
    """Everything that has been issued."""

    def __init__(
        self,
        place: Place,
        vault: Vault,
        clients: ProxyClients,
        provider: Provider,
        clock: Callable[[], float],
        *,
        bounded: bool,
    ) -> None:
        """``bounded``: the store is this process's memory alone, and has no room for all who might come."""
        self._place = place
        self._vault = vault
        self._clients = clients
        self._provider = provider
        self._clock = clock
        self._users = Users(vault)
        self._kept = FairPlaces(LOGINS_KEPT) if bounded else None
        self._verified = VerifiedTokens(TOKENS_VERIFIED)
        self._endings = 0
        vault.store.subscribe(_ENDED, lambda _: self._forget_verified())

    # --- what clients ask -------------------------------------------------------------------------------------------

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
        raise Denial("unsupported_grant_type", "grant_type is authorization_code or refresh_token")

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
                    "invalid_grant", "the code was used before, or is not of this client and this login"
                )
            return msgspec.structs.replace(found, redirect_uri="", challenge="")

        login = None if code is None else await self._spent(code.login, spend)
        if code is None or login is None:
            raise Denial("invalid_grant", "the code is unknown, or too old")
        return await self._issued(code.login, login, login.scopes)

    async def _spent(self, id: str, spend: Callable[[Login], Login]) -> Login | None:
        """The login after ``spend``, which is used from now on; None when there is none.

        Raises:
            Denial: what was to be spent was not good.
        """
        try:
            login = await self._vault.change("login", id, Login, spend, REFRESH_SECONDS)
        except Denial:
            # RFC 6749, 4.1.2: a code that comes twice ends what was issued for it; one that is tried wrongly does, too.
            # OAuth 2.1, 4.3.1: one of two who have the same refresh token has stolen it.
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
            raise Denial("invalid_grant", "the refresh token is unknown, or too old")
        scopes = known.scopes
        if form.get("scope"):
            scopes = tuple(form["scope"].split())
            if not set(scopes) <= set(known.scopes):
                raise Denial("invalid_scope", "a refresh gives no further scopes")

        def spend(found: Login) -> Login:
            if found.serial != known.serial:
                raise Denial("invalid_grant", "the refresh token was used before")
            return msgspec.structs.replace(found, serial=found.serial + 1)

        login = await self.current(known.login)
        if login is not None:
            login = await self._spent(known.login, spend)
        if login is None:
            raise Denial("invalid_grant", "the login is over")
        return await self._issued(known.login, login, scopes)

    async def _issued(self, id: str, login: Login, scopes: tuple[str, ...]) -> dict[str, Any]:
        now = self._clock()
        lifetime = ACCESS_SECONDS
        ends = login.tokens.expires_at
        if ends is not None and login.tokens.refresh_token is None:
            lifetime = min(lifetime, ends - now)
        if lifetime < 1:
            await self._end(id)
            raise Denial("invalid_grant", "what the provider gave is over")
        issued = Issued(id, login.client_id, scopes, self._place.resource, now + lifetime, login.serial)
        return {
            "access_token": _ACCESS + self._vault.seal(_ACCESS, issued),
            "token_type": "Bearer",
            "expires_in": int(lifetime),
            "refresh_token": _REFRESH + self._vault.seal(_REFRESH, issued),
            "scope": " ".join(scopes),
        }

    def _open(self, kind: str, token: str) -> Issued | None:
        """What a token of this kind stands for; None when it is none of ours."""
        found = self._vault.open(kind, token.removeprefix(kind), Issued) if token.startswith(kind) else None
        return found if found is not None and found.resource == self._place.resource else None

    async def _revoked(self, client: ProxyClient, form: Mapping[str, str]) -> dict[str, Any]:
        """RFC 7009. Either token takes the other one with it; what is not this client's is as good as unknown."""
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
            log.warning("the provider was not told that a login is over")

    # --- what the server asks ---------------------------------------------------------------------------------------

    async def verify(self, token: str) -> Principal:
        """Raises `InvalidToken`: it is none of ours, or over."""
        now = self._clock()
        known = self._verified.find(token, now)
        if known is not None and known[0] is not None:
            return known[0]
        found, endings = self._open(_ACCESS, token), self._endings
        login = None if found is None else await self._vault.get("login", found.login, Login)
        if found is None or login is None or found.expires_at <= now:
            raise InvalidToken("the token is unknown, revoked or over")
        claims = {**login.claims, "exp": found.expires_at, LOGIN: found.login}
        principal = Principal(login.subject, login.issuer, frozenset(found.scopes), claims, login.client_id)
        if endings == self._endings:  # else it may have been over before the store's answer was here
            self._verified.keep(token, principal, min(found.expires_at, now + REMEMBERED_SECONDS))
        return principal

    async def provider_token(self, principal: Principal) -> str:
        """The provider's token for ``principal``, renewed if it has to be.

        Raises:
            DovetailError: there is none any more.
        """
        id = principal.claims.get(LOGIN)
        if not isinstance(id, str):  # work that goes on after the call has no claims
            issuer, client_id = principal.issuer or "", principal.client_id or ""
            id = await self._users.last(issuer, principal.subject, client_id) or ""
        login = await self.current(id)
        if login is None:
            raise DovetailError(
                "the login at the provider is over: log in again", kind="authentication_failed"
            )
        return login.tokens.access_token

    async def current(self, id: str) -> Login | None:
        """A login whose provider tokens are good for a while; None when it is over.

        Raises:
            Unavailable: the provider cannot be asked now.
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
                raise Unavailable("the provider does not renew its tokens now") from None
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
