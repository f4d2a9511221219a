"""The login of a browser through the proxy: authorization request, consent, provider login, redirect to the
client.

    /authorize       validates the request and asks for consent. The request travels in the page, sealed
    /consent         the answer, once, from the same page and browser; then the provider's login
    /auth/callback   the redirect of the provider; the client gets a code of the proxy

Consent is requested for each login. The provider knows only the proxy as a client, and may accept a user
silently. If the proxy remembered consent too, any client could obtain a code (confused deputy). Each login
has a cookie, and its records can only be opened with it, so another browser cannot continue it.
"""

from __future__ import annotations

import hmac
import inspect
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from ...core.principal import Principal
from ...stores.base import StoreError
from ..core import oauth_urls
from ..core.client_metadata import choose_redirect
from ..core.code_request import CodeRequest, parameters, read_code_request, redirect_to
from ..core.oauth_error import Denial, Unrecognised
from ..server.fair_eviction import FairEviction
from ..server.verifier import Unavailable
from ..server.verifier_routes import PageAnswer, PageRequest
from .login_records import Code, ConsentRequest, Login, PendingLogin, ProviderTokens
from .provider import IdentityProvider
from .proxy_pages import consent_page, error_page, redirect
from .registered_clients import ProxyClients
from .sealed_records import SealedRecords
from .user_logins import digest_of

CONSENT_SECONDS: Final = 600.0
"""Seconds for the consent page, and for the login at the provider."""
LOGINS_WAITING: Final = 2_000
"""Users at the provider, per process. Beyond that, the oldest login of the address with most logins is
dropped.
"""
CODE_SECONDS: Final = 60.0
"""Lifetime of an authorization code in seconds."""


_ID: Final = re.compile(r"[0-9a-f]{16}")
_FLAGS: Final = "; Path=/; Secure; HttpOnly; SameSite=Lax"
_FULL: Final = "Too many logins are in progress. Try again in a minute."
_STALE: Final = (
    "This page has expired, was already used, or belongs to another browser. Start the login again."
)


class ProxyUrls(Struct, frozen=True):
    """The URLs of this proxy."""

    base: str
    """Its issuer; the pages are below it."""
    resource: str
    basic: tuple[str, ...]
    """Scopes that every caller needs."""

    @property
    def callback(self) -> str:
        return f"{self.base}/auth/callback"


class Logins:
    """Logins in progress."""

    def __init__(
        self,
        place: ProxyUrls,
        vault: SealedRecords,
        clients: ProxyClients,
        provider: IdentityProvider,
        admit: Callable[[Principal], Any] | None,
        clock: Callable[[], float],
    ) -> None:
        self._place = place
        self._vault = vault
        self._clients = clients
        self._provider = provider
        self._admit = admit
        self._clock = clock
        self._waiting = FairEviction(LOGINS_WAITING)
        """The states of users at the provider, by address."""

    # --- authorization request
    # --------------------------------------------------------------------------------------------

    async def authorize(self, request: PageRequest) -> PageAnswer:
        if request.method != "GET":
            return PageAnswer(405, headers=(("allow", "GET"),))
        try:
            given = parameters(request.query)
            client = await self._clients.find(given.get("client_id"))
            redirect_uri = choose_redirect(client, given.get("redirect_uri"))
        except (Unrecognised, Denial) as error:
            return error_page(f"The application asked in a wrong way: {error.description}.")
        except Unavailable:
            return error_page("The application cannot be looked up now. Try again in a minute.", 503)
        place = self._place
        try:
            wanted = read_code_request(given, redirect_uri, place.resource, request.offered, place.basic)
        except Denial as error:
            return self._refused(redirect_uri, given.get("state"), error)
        id, browser = secrets.token_hex(8), secrets.token_urlsafe(32)
        asked = ConsentRequest(wanted, id, self._clock() + CONSENT_SECONDS)
        fields = {"id": id, "request": self._vault.seal("consent", asked, browser)}
        cookie = f"{_cookie(id)}={browser}; Max-Age={CONSENT_SECONDS:.0f}{_FLAGS}"
        return consent_page(place.resource, client, wanted, fields, f"{place.base}/consent", cookie)

    # --- consent
    # ----------------------------------------------------------------------------------------------------------

    async def consent(self, request: PageRequest) -> PageAnswer:
        if request.method != "POST":
            return PageAnswer(405, headers=(("allow", "POST"),))
        headers = request.headers
        ours = headers.get("origin", oauth_urls.origin(self._place.base)) == oauth_urls.origin(
            self._place.base
        )
        if not ours or headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return error_page("This answer does not come from the consent page.", 403)
        try:
            form = parameters(request.body.decode("utf-8", "replace"))
        except Denial:
            return error_page(_STALE)
        id, text = form.get("id", ""), form.get("request", "")
        browser = cookie_of(headers.get("cookie"), _cookie(id)) if _ID.fullmatch(id) else None
        asked = None if browser is None else self._vault.open("consent", text, ConsentRequest, browser)
        if asked is None or browser is None or asked.id != id or asked.expires <= self._clock():
            return error_page(_STALE, 403)
        if (
            form.get("decision") != "allow"
        ):  # no record is kept: without the cookie, consent is impossible later
            denied = Denial("access_denied", "the user did not agree")
            return self._refused(asked.request.redirect_uri, asked.request.state, denied, _gone(_cookie(id)))
        try:
            return await self._send_away(asked, browser, request.owner)
        except StoreError:
            return error_page(_FULL, 503)

    async def _send_away(self, asked: ConsentRequest, browser: str, owner: str) -> PageAnswer:
        wanted, cookie = asked.request, _cookie(asked.id)
        # One state per page: a page that was already answered has its state in the store.
        state = self._vault.digests("state", f"{asked.id} {browser}")[0]
        verifier, nonce = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        try:
            url = await self._provider.login_url(self._place.callback, state, verifier, nonce)
        except Unavailable:
            denied = Denial("temporarily_unavailable", "too many logins are in progress")
            return self._refused(wanted.redirect_uri, wanted.state, denied, _gone(cookie))
        # Consent needs no account: a single address must not block others.
        over = self._waiting.take(state, owner)
        if over is not None:
            await self._vault.delete("away", over)
        away = PendingLogin(wanted, browser, cookie, verifier, nonce)
        if not await self._vault.put("away", state, away, CONSENT_SECONDS, only_new=True):
            return error_page(_STALE)
        return redirect(url)

    # --- redirect of the provider
    # -----------------------------------------------------------------------------------------

    async def callback(self, request: PageRequest) -> PageAnswer:
        if request.method != "GET":
            return PageAnswer(405, headers=(("allow", "GET"),))
        try:
            given = parameters(request.query)
        except Denial:
            return error_page(_STALE)
        state = given.get("state", "")
        away = await self._vault.get("away", state, PendingLogin)
        browser = None if away is None else cookie_of(request.headers.get("cookie"), away.cookie)
        # The cookie first: a lured browser must not end the login of another one.
        if away is None or browser is None or not hmac.compare_digest(browser, away.browser):
            return error_page(_STALE, 403)
        wanted = away.request
        try:
            if await self._vault.change("away", state, PendingLogin, _spend, CONSENT_SECONDS) is None:
                return error_page(_STALE)
            code = await self._logged_in(given, away, request.owner)
        except _Spent:
            return error_page(_STALE)
        except Denial as error:
            return self._refused(wanted.redirect_uri, wanted.state, error, _gone(away.cookie))
        except (Unavailable, StoreError):
            denied = Denial("temporarily_unavailable", "the provider is unavailable")
            return self._refused(wanted.redirect_uri, wanted.state, denied, _gone(away.cookie))
        answer = {"code": code, "state": wanted.state, "iss": self._place.base}
        return redirect(redirect_to(wanted.redirect_uri, answer), _gone(away.cookie))

    async def _logged_in(self, given: Mapping[str, str], away: PendingLogin, owner: str) -> str:
        """Return a code for the client, after the provider has identified the user."""
        await self._provider.check_issuer(given.get("iss"))
        if given.get("error") or not given.get("code"):
            raise Denial("access_denied", "the provider refused the login")
        tokens = await self._provider.redeem(given["code"], self._place.callback, away.verifier)
        claims = await self._provider.identify(tokens, away.nonce)
        id = secrets.token_urlsafe(32)
        login = await self._admitted(away.request, claims, tokens, id, owner)
        await self._vault.put("login", id, login, CODE_SECONDS)  # extended when the code is redeemed
        return self._vault.seal("code", Code(id))

    async def _admitted(
        self, wanted: CodeRequest, claims: dict[str, Any], tokens: ProviderTokens, id: str, owner: str
    ) -> Login:
        """Return the login of the user, with the admitted scopes."""
        issuer = (await self._provider.endpoints()).issuer
        subject = self._provider.subject_of(claims)
        if subject is None and claims:
            raise Denial("server_error", "the provider did not identify the user")
        # Without an identity, each login is a separate principal and counts for its address.
        owner, subject = subject or owner, subject or f"login-{digest_of(id)[:16]}"
        scopes = wanted.scopes
        if self._admit is not None:
            given = self._admit(Principal(subject, issuer, frozenset(scopes), claims, wanted.client_id))
            allowed: bool | Iterable[str] | None = await given if inspect.isawaitable(given) else given
            if allowed is None or allowed is False:
                raise Denial("access_denied", "this user may not use this server")
            if allowed is not True:
                held = frozenset(allowed)
                scopes = tuple(scope for scope in scopes if scope in held)
        return Login(
            wanted.client_id,
            subject,
            issuer,
            scopes,
            claims,
            tokens,
            redirect_uri=wanted.redirect_uri,
            challenge=wanted.challenge,
            owner=owner,
        )

    def _refused(
        self, uri: str, state: str | None, error: Denial, headers: tuple[tuple[str, str], ...] = ()
    ) -> PageAnswer:
        """Redirect an error to the client (RFC 6749, 4.1.2.1)."""
        answer = {
            "error": error.error,
            "error_description": error.description,
            "state": state,
            "iss": self._place.base,
        }
        return redirect(redirect_to(uri, answer), headers)


class _Spent(Exception):
    """The record was already used."""


def _spend(found: PendingLogin) -> PendingLogin:
    if found.spent:
        raise _Spent
    return msgspec.structs.replace(found, spent=True)


def cookie_of(header: str | None, name: str) -> str | None:
    """Return the value of one cookie; None if it is missing or repeated."""
    pairs = (part.strip().partition("=") for part in (header or "").split(";"))
    found = [value for known, _, value in pairs if known == name]
    return found[0] if len(found) == 1 and found[0].isascii() else None


def _cookie(id: str) -> str:
    # __Host-: set by exactly this host, over TLS or on this machine; no other host can set it.
    return f"__Host-dovetail-{id}"


def _gone(cookie: str) -> tuple[tuple[str, str], ...]:
    return (("set-cookie", f"{cookie}=; Max-Age=0{_FLAGS}"),)
