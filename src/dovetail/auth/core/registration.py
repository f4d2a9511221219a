"""Client registration: pre-registered, by a client metadata document, or dynamic (RFC 7591)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from . import oauth_urls
from .auth_errors import AuthError
from .discovery import AuthorizationTarget
from .steps import Ask, Flow, Progress, Quiet, ask, load, save
from .token_error_response import refused

SECRET_BASIC, SECRET_POST, NONE, PRIVATE_KEY = (
    "client_secret_basic",
    "client_secret_post",
    "none",
    "private_key_jwt",
)


class ClientRegistration(Quiet, frozen=True, kw_only=True, omit_defaults=True):
    """The registration at one issuer. It is never sent to another one."""

    issuer: str
    client_id: str
    client_secret: str | None = None
    method: str = NONE
    """The authentication method at the token endpoint."""
    redirect_uri: str | None = None
    scopes: tuple[str, ...] = ()
    """The registered scopes; some authorization servers grant no others."""
    secret_expires_at: float = 0
    """Expiry of the secret; 0: never."""


class Identity(Quiet, frozen=True, kw_only=True):
    """The user's options about the client."""

    client_id: str | None = None
    client_secret: str | None = None
    client_metadata_url: str | None = None
    client_name: str = "Dovetail"
    issuer: str | None = None
    """The only issuer that may receive ``client_id``."""
    grant_types: Sequence[str] = ("authorization_code", "refresh_token")
    method: str | None = None
    """The authentication method, if it is neither a secret nor none."""
    metadata: Mapping[str, Any] = {}
    """Further metadata for the registration."""


class _Registered(Quiet, frozen=True):
    client_id: str
    client_secret: str | None = None
    client_secret_expires_at: float | None = None
    token_endpoint_auth_method: str | None = None


def registration_key(issuer: str) -> tuple[str, ...]:
    """Return the store key of the registration for the next login at ``issuer``."""
    return ("client", issuer)


def client_key(issuer: str, client_id: str) -> tuple[str, ...]:
    """Return the store key of the registration that tokens of ``client_id`` were issued to.

    Only that client can refresh and revoke them, also after another login has registered again.
    """
    return ("client", issuer, client_id)


def register(
    place: AuthorizationTarget,
    identity: Identity,
    redirect_uri: str | None,
    scopes: Sequence[str],
    now: float,
) -> Flow[ClientRegistration]:
    """Return the registration at this issuer, in the order of the specification.

    Raises:
        AuthError: no client is configured, and the authorization server does not register clients.
    """
    found = yield from _found(place, identity, redirect_uri, scopes, now)
    yield from save(client_key(found.issuer, found.client_id), found)
    return found


def _found(
    place: AuthorizationTarget,
    identity: Identity,
    redirect_uri: str | None,
    scopes: Sequence[str],
    now: float,
) -> Flow[ClientRegistration]:
    if identity.client_id is not None:
        given = preregistered(place, identity, redirect_uri)
        yield from save(registration_key(place.issuer), given)
        return given
    if identity.client_metadata_url is not None and place.server.client_id_metadata_document_supported:
        url = check_document_url(identity.client_metadata_url)
        yield Progress("registration", f"the client is described by the document {url}")
        return ClientRegistration(issuer=place.issuer, client_id=url, redirect_uri=redirect_uri)
    known = yield from load(registration_key(place.issuer), ClientRegistration)
    if known is not None and _usable(known, place, redirect_uri, scopes, now):
        yield Progress("registration", f"registered as {known.client_id} before")
        return known
    if place.server.registration_endpoint is None:
        raise AuthError(
            f"the authorization server {place.issuer} does not support client registration",
            fault="client",
            advice="register one there by hand and give its client_id, and its client_secret if it has one",
        )
    made = yield from _register(place, identity, redirect_uri, scopes)
    yield from save(registration_key(place.issuer), made)
    yield Progress("registration", f"registered as {made.client_id}")
    return made


def preregistered(
    place: AuthorizationTarget, identity: Identity, redirect_uri: str | None
) -> ClientRegistration:
    """Return the pre-registered client.

    Authorization 2026-07-28: credentials are bound to the issuer they were made by.

    Raises:
        AuthError: they belong to another issuer.
    """
    assert identity.client_id is not None
    if identity.issuer is not None and identity.issuer != place.issuer:
        raise AuthError(
            f"the client_id is for the issuer {identity.issuer}, but the server names {place.issuer}",
            fault="client",
            advice="register with that issuer and give the new client_id",
        )
    return ClientRegistration(
        issuer=place.issuer,
        client_id=identity.client_id,
        client_secret=identity.client_secret,
        method=identity.method or method_for(place, identity.client_secret),
        redirect_uri=redirect_uri,
    )


def method_for(place: AuthorizationTarget, secret: str | None) -> str:
    """Return the authentication method at the token endpoint. RFC 8414: basic is the default."""
    if secret is None:
        return NONE
    offered = place.server.token_endpoint_auth_methods_supported
    return SECRET_BASIC if offered is None or SECRET_BASIC in offered else SECRET_POST


def check_document_url(url: str) -> str:
    """Check the URL of a Client ID Metadata Document: https with a path.

    Raises:
        AuthError: it is not valid.
    """
    parts = oauth_urls.split(url, "client_metadata_url", "client")
    if parts.scheme != "https" or parts.path in ("", "/") or parts.fragment:
        raise AuthError("client_metadata_url must be an https URL with a path", fault="client")
    return url


def _usable(
    known: ClientRegistration,
    place: AuthorizationTarget,
    redirect_uri: str | None,
    scopes: Sequence[str],
    now: float,
) -> bool:
    expired = 0 < known.secret_expires_at <= now
    enough = not known.scopes or set(scopes) <= set(known.scopes)
    return known.issuer == place.issuer and known.redirect_uri == redirect_uri and enough and not expired


def _register(
    place: AuthorizationTarget, identity: Identity, redirect_uri: str | None, scopes: Sequence[str]
) -> Flow[ClientRegistration]:
    offered = place.server.token_endpoint_auth_methods_supported
    method = NONE
    if offered is not None and NONE not in offered:
        method = next((each for each in (SECRET_BASIC, SECRET_POST) if each in offered), NONE)
    wanted = {
        **identity.metadata,
        "client_name": identity.client_name,
        "application_type": application_type(redirect_uri),
        "grant_types": list(identity.grant_types),
        "response_types": ["code"] if redirect_uri is not None else [],
        "redirect_uris": [] if redirect_uri is None else [redirect_uri],
        "token_endpoint_auth_method": method,
    }
    whole = tuple(dict.fromkeys([*scopes, *(place.scopes or ())]))
    if whole:
        wanted["scope"] = " ".join(whole)
    request = Ask(
        what="the registration",
        url=place.endpoint("registration_endpoint", place.server.registration_endpoint),
        method="POST",
        headers={"Content-Type": "application/json", "Accept": "application/json"},
        body=msgspec.json.encode(wanted),
    )
    answer = yield from ask(request)
    if answer.status not in (200, 201):
        raise refused(answer, f"{place.issuer} refused to register this client")
    found = answer.read(_Registered, "the answer to the registration", "authorization server")
    return ClientRegistration(
        issuer=place.issuer,
        client_id=found.client_id,
        client_secret=found.client_secret,
        method=found.token_endpoint_auth_method or _default(place, method, found.client_secret),
        redirect_uri=redirect_uri,
        scopes=whole,
        secret_expires_at=found.client_secret_expires_at or 0,
    )


def _default(place: AuthorizationTarget, asked: str, secret: str | None) -> str:
    return asked if asked != NONE or secret is None else method_for(place, secret)


def application_type(redirect_uri: str | None) -> str:
    """Return the application type. 2026-07-28: clients MUST send it; OpenID Connect assumes a web
    application.
    """
    if redirect_uri is None:
        return "native"
    parts = urlsplit(redirect_uri)
    web = parts.scheme == "https" and not oauth_urls.is_loopback(parts.hostname or "")
    return "web" if web else "native"
