"""The endpoints of a program's own authorization server: requests are checked here, and decided by its provider.

Each takes and gives what our pages do; `routes` puts them where clients look for them.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace
from pydantic import AnyUrl, ValidationError

from .....auth.core.client_metadata import METHODS
from .....auth.core.code_request import basic_credentials, parameters, redirect_to
from .....auth.core.denial import Denial
from .....auth.core.pkce import s256
from .....auth.proxy.pages import json_answer, redirect
from .....auth.server.pages import PageAnswer, PageRequest
from .....auth.settings import CLIENT_BYTES, REDIRECT_URIS
from ...shared import auth as a
from .provider import AuthorizationParams, AuthorizeError, RegistrationError, TokenError
from .settings import ClientRegistrationOptions

_RUNS: Final = frozenset({"javascript", "data", "vbscript", "file", "blob", "about"})
"""Schemes that no browser may be sent to: they run or open things."""
_ERRORS: Final = (Denial, AuthorizeError, RegistrationError, TokenError)


def _said(error: Any) -> dict[str, Any]:
    words = error.description if isinstance(error, Denial) else error.error_description
    return {"error": error.error, "error_description": words}


class Endpoints:
    """What ``provider`` decides, as pages."""

    def __init__(
        self, provider: Any, metadata: a.OAuthMetadata, registration: ClientRegistrationOptions
    ) -> None:
        self._provider, self._registration = provider, registration
        # RFC 8414, 3.3: the issuer is written as the metadata of the resource writes it.
        issuer = {"issuer": str(metadata.issuer).rstrip("/")}
        self._metadata = metadata.model_dump(mode="json", exclude_none=True) | issuer

    async def metadata(self, _: PageRequest) -> PageAnswer:
        return json_answer(self._metadata)

    # --- a code -------------------------------------------------------------------------------------------------

    async def authorize(self, request: PageRequest) -> PageAnswer:
        """Send the browser to where the provider says. What is wrong with the client is told here alone."""
        try:
            given = parameters(
                request.query if request.method == "GET" else request.body.decode("utf-8", "replace")
            )
            client = await self._provider.get_client(given.get("client_id", ""))
            if client is None:
                raise Denial("invalid_request", "this client_id is not known")
            back = client.validate_redirect_uri(
                AnyUrl(given["redirect_uri"]) if "redirect_uri" in given else None
            )
        except Denial as error:
            return json_answer(_said(error), 400)
        except (ValidationError, a.InvalidRedirectUriError):
            return json_answer(
                _said(Denial("invalid_request", "the redirect_uri is none of this client's")), 400
            )
        try:
            where = await self._provider.authorize(client, _wanted(client, given, back))
        except _ERRORS as error:
            where = redirect_to(str(back), {**_said(error), "state": given.get("state")})
        return redirect(where, status=302)  # as theirs

    # --- tokens -------------------------------------------------------------------------------------------------

    async def token(self, request: PageRequest) -> PageAnswer:
        return await self._answered(request, self._granted)

    async def revoke(self, request: PageRequest) -> PageAnswer:
        return await self._answered(request, self._revoked)

    async def _answered(
        self, request: PageRequest, answer: Callable[[Any, Mapping[str, str]], Any]
    ) -> PageAnswer:
        try:
            form = parameters(request.body.decode("utf-8", "replace"))
            client = await self._client(form, request.headers.get("authorization"))
            return json_answer(await answer(client, form))
        except _ERRORS as error:
            status = error.status if isinstance(error, Denial) else 400
            reply = json_answer(_said(error), status)
            named = (*reply.headers, ("www-authenticate", "Basic"))
            return replace(reply, headers=named) if status == 401 else reply

    async def _client(self, form: Mapping[str, str], header: str | None) -> Any:
        claimed, secret = basic_credentials(header) or (
            form.get("client_id", ""),
            form.get("client_secret", ""),
        )
        client = await self._provider.get_client(claimed)
        if client is None or form.get("client_id", claimed) != claimed:
            raise Denial("invalid_client", "Invalid client_id", 401)
        known, ends = client.client_secret, client.client_secret_expires_at
        if known is not None and client.token_endpoint_auth_method != "none":
            over = bool(ends) and ends < time.time()
            if over or not hmac.compare_digest(known.encode(), secret.encode()):
                raise Denial("invalid_client", "Invalid client_secret", 401)
        return client

    async def _granted(self, client: Any, form: Mapping[str, str]) -> dict[str, Any]:
        kinds = {"authorization_code": self._redeemed, "refresh_token": self._renewed}
        kind = form.get("grant_type", "")
        if kind not in kinds or kind not in client.grant_types:
            words = f"Unsupported grant type (supported grant types are {client.grant_types})"
            raise Denial("unsupported_grant_type", words)
        return (await kinds[kind](client, form)).model_dump(mode="json", exclude_none=True)

    async def _redeemed(self, client: Any, form: Mapping[str, str]) -> Any:
        code = await self._provider.load_authorization_code(client, form.get("code", ""))
        if code is None or code.client_id != client.client_id:
            raise Denial("invalid_grant", "authorization code does not exist")
        if code.expires_at < time.time():
            raise Denial("invalid_grant", "authorization code has expired")
        back = str(code.redirect_uri) if code.redirect_uri_provided_explicitly else None
        if _address(form.get("redirect_uri")) != back:
            raise Denial("invalid_request", "redirect_uri did not match the one used when creating auth code")
        if not _proves(form.get("code_verifier"), code.code_challenge):
            raise Denial("invalid_grant", "incorrect code_verifier")
        return await self._provider.exchange_authorization_code(client, code)

    async def _renewed(self, client: Any, form: Mapping[str, str]) -> Any:
        known = await self._provider.load_refresh_token(client, form.get("refresh_token", ""))
        if known is None or known.client_id != client.client_id:
            raise Denial("invalid_grant", "refresh token does not exist")
        if known.expires_at and known.expires_at < time.time():
            raise Denial("invalid_grant", "refresh token has expired")
        scopes = form["scope"].split() if "scope" in form else known.scopes
        if not set(scopes) <= set(known.scopes):
            beyond = next(one for one in scopes if one not in known.scopes)
            raise Denial("invalid_scope", f"cannot request scope `{beyond}` not provided by refresh token")
        return await self._provider.exchange_refresh_token(client, known, scopes)

    async def _revoked(self, client: Any, form: Mapping[str, str]) -> dict[str, Any]:
        """RFC 7009: what is not this client's is as good as unknown."""
        if "token" not in form:
            raise Denial("invalid_request", "token: Field required")
        if form.get("token_type_hint", "access_token") not in ("access_token", "refresh_token"):
            words = "token_type_hint: Input should be 'access_token' or 'refresh_token'"
            raise Denial("invalid_request", words)
        text = form["token"]
        found = await self._provider.load_access_token(text) or await self._provider.load_refresh_token(
            client, text
        )
        if found is not None and found.client_id == client.client_id:
            await self._provider.revoke_token(found)
        return {}

    # --- clients ------------------------------------------------------------------------------------------------

    async def register(self, request: PageRequest) -> PageAnswer:
        """A new client (RFC 7591)."""
        try:
            client = self._registered(request.body)
            await self._provider.register_client(client)
        except _ERRORS as error:
            return json_answer(_said(error), 400)
        return json_answer(client.model_dump(mode="json", exclude_none=True), 201)

    def _registered(self, body: bytes) -> a.OAuthClientInformationFull:
        options = self._registration
        try:
            asked = a.OAuthClientMetadata.model_validate_json(body)
        except ValidationError as error:
            raise Denial("invalid_client_metadata", _faults(error)) from None
        places, method = asked.redirect_uris or [], asked.token_endpoint_auth_method or "client_secret_post"
        if len(places) > REDIRECT_URIS or any(uri.scheme in _RUNS for uri in places):
            raise Denial("invalid_redirect_uri", "these are no places that a browser can be sent back to")
        if asked.scope is None and options.default_scopes is not None:
            asked.scope = " ".join(options.default_scopes)
        _check(asked, method, options.valid_scopes)
        if len(body) > CLIENT_BYTES:
            raise Denial("invalid_client_metadata", f"all of it has at most {CLIENT_BYTES} bytes")
        now, lasts = int(time.time()), options.client_secret_expiry_seconds
        members: dict[str, Any] = {**asked.model_dump(), "token_endpoint_auth_method": method}
        if method != "none":
            ends = None if lasts is None else now + lasts
            members |= {"client_secret": secrets.token_hex(32), "client_secret_expires_at": ends}
        client_id = secrets.token_hex(16)
        return a.OAuthClientInformationFull(client_id=client_id, client_id_issued_at=now, **members)


def _check(asked: a.OAuthClientMetadata, method: str, allowed: list[str] | None) -> None:
    """Raises `Denial`: no such client is registered here; the words are theirs."""
    wide = set[str]() if allowed is None else set((asked.scope or "").split()) - set(allowed)
    words = None
    if wide:
        words = f"Requested scopes are not valid: {', '.join(sorted(wide))}"
    elif not {"authorization_code", "refresh_token"} <= {*asked.grant_types}:
        words = "grant_types must be authorization_code and refresh_token"
    elif "code" not in asked.response_types:
        words = "response_types must include 'code' for authorization_code grant"
    elif method not in METHODS:
        words = f"token_endpoint_auth_method is one of {', '.join(METHODS)}"
    if words is not None:
        raise Denial("invalid_client_metadata", words)


def _proves(verifier: str | None, challenge: str) -> bool:
    """As theirs: a verifier may be shorter than RFC 7636 wants it."""
    return verifier is not None and hmac.compare_digest(s256(verifier).encode(), challenge.encode())


def _faults(error: ValidationError) -> str:
    """What pydantic has against a request, as theirs say it."""
    return "\n".join(f"{'.'.join(str(one) for one in e['loc'])}: {e['msg']}" for e in error.errors())


def _wanted(client: Any, given: Mapping[str, str], back: Any) -> AuthorizationParams:
    """Raises `Denial`: it cannot be granted; the client is told."""
    if "response_type" not in given:
        raise Denial("invalid_request", "response_type: Field required")
    if given["response_type"] != "code":
        raise Denial("unsupported_response_type", "response_type is code")
    if "code_challenge" not in given or given.get("code_challenge_method", "S256") != "S256":
        raise Denial("invalid_request", "PKCE with code_challenge_method S256 is needed")
    try:
        scopes = client.validate_scope(given.get("scope"))
    except a.InvalidScopeError as error:
        raise Denial("invalid_scope", error.message) from None
    return AuthorizationParams(
        state=given.get("state"), scopes=scopes, code_challenge=given["code_challenge"], redirect_uri=back,
        redirect_uri_provided_explicitly="redirect_uri" in given, resource=given.get("resource"),
    )  # fmt: skip


def _address(text: str | None) -> str | None:
    """``text`` as pydantic writes addresses; what is none is itself."""
    try:
        return None if text is None else str(AnyUrl(text))
    except ValidationError:
        return text
