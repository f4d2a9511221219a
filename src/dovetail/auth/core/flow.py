"""The client's authorization flows: login, renewal and logout.

    recall     read the stored tokens for this server
    log_in     after a 401 or 403: discovery, refresh if that is enough, else registration and the grant
    renew      shortly before a token expires
    log_out    revoke and remove the tokens

Credentials are stored by issuer, client and resource, and bound to them. When a server names another issuer,
the credentials of the old one are dropped and never sent to the new one (2026-07-28).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from .auth_errors import AuthError
from .combined_challenge import NOTHING, Demand
from .discovery import AuthorizationTarget, discover, find_server
from .grants import Grant
from .registration import ClientRegistration, Identity, client_key, preregistered
from .scope_choice import choose_scopes
from .steps import Flow, Progress, Quiet, Sources, load, save
from .token_endpoint import refresh, revoke
from .token_set import Tokens


class Binding(Quiet, frozen=True, kw_only=True, omit_defaults=True):
    """Which stored tokens belong to a server."""

    issuer: str
    client_id: str
    resource: str
    requested: tuple[str, ...] = ()
    """The requested scopes."""


class HeldTokens(Quiet, frozen=True, kw_only=True):
    """The tokens of a client for one server."""

    binding: Binding
    tokens: Tokens
    place: AuthorizationTarget | None = None
    """None if read from the store without contacting the server."""

    @property
    def issuer(self) -> str:
        return self.binding.issuer


def server_key(url: str) -> tuple[str, ...]:
    return ("server", url)


def token_key(binding: Binding) -> tuple[str, ...]:
    return ("token", binding.issuer, binding.client_id, binding.resource)


def recall(url: str, identity: Identity) -> Flow[HeldTokens | None]:
    """Return the stored tokens for the server at ``url`` if they belong to this client."""
    binding = yield from load(server_key(url), Binding)
    if binding is None or not _ours(binding, identity):
        return None
    tokens = yield from load(token_key(binding), Tokens)
    return None if tokens is None else HeldTokens(binding=binding, tokens=tokens)


def _ours(binding: Binding, identity: Identity) -> bool:
    if identity.issuer is not None and identity.issuer != binding.issuer:
        return False
    return identity.client_id is None or identity.client_id == binding.client_id


def log_in(
    url: str,
    demand: Demand,
    held: HeldTokens | None,
    grant: Grant,
    wanted: Sequence[str] | None,
    sources: Sources,
    *,
    more: bool = False,
) -> Flow[HeldTokens]:
    """Answer a challenge. With ``more``, the token is valid but its scopes are insufficient.

    Raises:
        AuthError: no authorization could be obtained.
    """
    place = yield from discover(url, demand, _known(held, grant.identity))
    if held is not None and held.issuer != place.issuer:
        yield from _leave(url, held, place, grant.identity)
        held = None
    yield from _check_secret(place, grant)
    if held is not None and not more:
        renewed = yield from _refreshed(url, held, place, grant, sources)
        if renewed is not None:
            return renewed
    before = () if held is None else held.binding.requested
    scopes = choose_scopes(place, demand, wanted, before)
    client, tokens = yield from grant.obtain(place, scopes, sources)
    binding = Binding(
        issuer=place.issuer, client_id=client.client_id, resource=place.resource, requested=scopes
    )
    yield Progress("token", f"{place.issuer} gave a token for {place.resource}")
    return (yield from _keep(url, HeldTokens(binding=binding, tokens=tokens, place=place)))


def renew(url: str, held: HeldTokens, grant: Grant, sources: Sources) -> Flow[HeldTokens | None]:
    """Renew the tokens without the user. Return None if that is impossible.

    Raises:
        AuthError: the authorization server failed; the tokens may still be valid.
    """
    place = yield from _issued_by(url, held)
    if place is None:
        return None
    renewed = yield from _refreshed(url, held, place, grant, sources)
    if renewed is None and grant.silent:
        _, tokens = yield from grant.obtain(place, held.binding.requested, sources)
        renewed = yield from _keep(url, HeldTokens(binding=held.binding, tokens=tokens, place=place))
    return renewed


def log_out(url: str, held: HeldTokens, grant: Grant, sources: Sources) -> Flow[bool]:
    """Remove the tokens for ``url`` and revoke them. Return whether they were revoked."""
    yield from forget(url, held)
    place = yield from _issued_by(url, held)
    if place is None:
        return False
    client = yield from _registered(place, held, grant.identity)
    if client is not None:
        return (yield from revoke(place, client, held.tokens, sources, grant.signer))
    # A client registered by hand at login may be unknown here; a public client needs only its id.
    public = ClientRegistration(issuer=place.issuer, client_id=held.binding.client_id)
    try:
        return (yield from revoke(place, public, held.tokens, sources))
    except AuthError:
        return False


def _issued_by(url: str, held: HeldTokens) -> Flow[AuthorizationTarget | None]:
    """Return the origin of the tokens, or None if the server now names another issuer.

    The metadata of the server may be at a URL that only its challenges contain. There was no challenge here,
    so the metadata of the issuer itself is enough.
    """
    if held.place is not None:
        return held.place
    try:
        place = yield from discover(url, NOTHING, (held.issuer,))
        if place.issuer == held.issuer:
            return place
        if not place.assumed:
            return None
    except AuthError as error:
        if error.fault == "network":
            raise
    return AuthorizationTarget(held.binding.resource, (yield from find_server(held.issuer)))


def forget(url: str, held: HeldTokens) -> Flow[None]:
    yield from save(token_key(held.binding), None)
    yield from save(server_key(url), None)


def _known(held: HeldTokens | None, identity: Identity) -> tuple[str, ...]:
    """Return the issuers to prefer if a server names several."""
    if identity.issuer is not None:
        return (identity.issuer,)
    return () if held is None else (held.issuer,)


class _SecretBinding(Quiet, frozen=True):
    issuer: str


def _check_secret(place: AuthorizationTarget, grant: Grant) -> Flow[None]:
    """Check that a secret is sent to one issuer only: the configured one, or the first that a server named.

    Raises:
        AuthError: this server names another issuer, which would learn the secret.
    """
    identity, secret = grant.identity, grant.identity.client_secret
    if (secret is None and not grant.shows_token) or identity.issuer is not None:
        return
    key = ("secret", identity.client_id or "", hashlib.sha256((secret or "").encode()).hexdigest()[:16])
    shown = yield from load(key, _SecretBinding)
    if shown is None:
        yield from save(key, _SecretBinding(place.issuer))
    elif shown.issuer != place.issuer:
        raise AuthError(
            f"the client credentials are bound to the issuer {shown.issuer}, but the server names {place.issuer}",
            fault="client",
            advice="give issuer=…, with what belongs to that issuer, if it is to be trusted",
        )


def _leave(url: str, held: HeldTokens, place: AuthorizationTarget, identity: Identity) -> Flow[None]:
    """Drop all credentials of the previous issuer: the server has moved to another one.

    Raises:
        AuthError: the client was registered by hand at the previous issuer.
    """
    yield from forget(url, held)
    yield Progress("issuer", f"the server has moved from {held.issuer} to {place.issuer}")
    if identity.client_id is not None and identity.issuer is None:
        raise AuthError(
            f"the client_id was registered with the issuer {held.issuer}, but the server names {place.issuer} now",
            fault="client",
            advice="register with that issuer, and give the new client_id",
        )


def _refreshed(
    url: str, held: HeldTokens, place: AuthorizationTarget, grant: Grant, sources: Sources
) -> Flow[HeldTokens | None]:
    if held.tokens.refresh_token is None:
        return None
    client = yield from _registered(place, held, grant.identity)
    if client is None:
        return None
    tokens = yield from refresh(place, client, held.tokens, sources, grant.signer)
    if tokens is None:
        yield from forget(url, held)
        return None
    yield Progress("token", f"{place.issuer} renewed the token")
    return (yield from _keep(url, HeldTokens(binding=held.binding, tokens=tokens, place=place)))


def _registered(
    place: AuthorizationTarget, held: HeldTokens, identity: Identity
) -> Flow[ClientRegistration | None]:
    """Return the registration that the tokens were issued to."""
    if identity.client_id is not None:
        return preregistered(place, identity, None)
    return (yield from load(client_key(place.issuer, held.binding.client_id), ClientRegistration))


def _keep(url: str, held: HeldTokens) -> Flow[HeldTokens]:
    yield from save(token_key(held.binding), held.tokens)
    yield from save(server_key(url), held.binding)
    return held
