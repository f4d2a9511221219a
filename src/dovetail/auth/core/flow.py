"""The whole way of a client: what it holds for a server, and what it does when it is challenged.

    recall     what the store has for this server
    log_in     after a 401 or 403: discovery, refresh if that is enough, else registration and the grant
    renew      shortly before the end of a token
    log_out    take the tokens back and forget them

Credentials are kept by issuer, client and resource, and bound to them: when a server names another issuer, what the
old one gave is dropped, and never shown to the new one (2026-07-28).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from .auth_errors import AuthError
from .combined_challenge import NOTHING, Demand
from .discovery import Place, discover, find_server
from .grants import Grant
from .registration import Identity, Registration, client_key, preregistered
from .scope_choice import choose_scopes
from .steps import Flow, Progress, Quiet, Sources, load, save
from .token_endpoint import refresh, revoke
from .token_set import Tokens


class Binding(Quiet, frozen=True, kw_only=True, omit_defaults=True):
    """Which tokens are for a server."""

    issuer: str
    client_id: str
    resource: str
    requested: tuple[str, ...] = ()
    """The scopes that were asked for."""


class Held(Quiet, frozen=True, kw_only=True):
    """What a client holds for one server."""

    binding: Binding
    tokens: Tokens
    place: Place | None = None
    """None when it comes from the store, and nobody has asked the server since."""

    @property
    def issuer(self) -> str:
        return self.binding.issuer


def server_key(url: str) -> tuple[str, ...]:
    return ("server", url)


def token_key(binding: Binding) -> tuple[str, ...]:
    return ("token", binding.issuer, binding.client_id, binding.resource)


def recall(url: str, identity: Identity) -> Flow[Held | None]:
    """What the store has for the server at ``url``, as far as it is this client's."""
    binding = yield from load(server_key(url), Binding)
    if binding is None or not _ours(binding, identity):
        return None
    tokens = yield from load(token_key(binding), Tokens)
    return None if tokens is None else Held(binding=binding, tokens=tokens)


def _ours(binding: Binding, identity: Identity) -> bool:
    if identity.issuer is not None and identity.issuer != binding.issuer:
        return False
    return identity.client_id is None or identity.client_id == binding.client_id


def log_in(
    url: str,
    demand: Demand,
    held: Held | None,
    grant: Grant,
    wanted: Sequence[str] | None,
    sources: Sources,
    *,
    more: bool = False,
) -> Flow[Held]:
    """Answer a challenge; ``more`` when the token is good and its scopes do not suffice.

    Raises:
        AuthError: there is no authorization to be had.
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
    return (yield from _keep(url, Held(binding=binding, tokens=tokens, place=place)))


def renew(url: str, held: Held, grant: Grant, sources: Sources) -> Flow[Held | None]:
    """New tokens without the user; None when that cannot be.

    Raises:
        AuthError: the authorization server fails; the tokens may still be good.
    """
    place = yield from _issued_by(url, held)
    if place is None:
        return None
    renewed = yield from _refreshed(url, held, place, grant, sources)
    if renewed is None and grant.silent:
        _, tokens = yield from grant.obtain(place, held.binding.requested, sources)
        renewed = yield from _keep(url, Held(binding=held.binding, tokens=tokens, place=place))
    return renewed


def log_out(url: str, held: Held, grant: Grant, sources: Sources) -> Flow[bool]:
    """Forget the tokens for ``url``, and have them revoked; whether they were."""
    yield from forget(url, held)
    place = yield from _issued_by(url, held)
    if place is None:
        return False
    client = yield from _registered(place, held, grant.identity)
    if client is not None:
        return (yield from revoke(place, client, held.tokens, sources, grant.signer))
    # Whoever logged in had an id by hand that nobody has told us; a public client needs no more than that.
    public = Registration(issuer=place.issuer, client_id=held.binding.client_id)
    try:
        return (yield from revoke(place, public, held.tokens, sources))
    except AuthError:
        return False


def _issued_by(url: str, held: Held) -> Flow[Place | None]:
    """Where the tokens come from; None when the server now names another issuer.

    The metadata of the server may lie at an address that only its challenges name. No challenge has been received
    here, so the metadata of the issuer itself is enough.
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
    return Place(held.binding.resource, (yield from find_server(held.issuer)))


def forget(url: str, held: Held) -> Flow[None]:
    yield from save(token_key(held.binding), None)
    yield from save(server_key(url), None)


def _known(held: Held | None, identity: Identity) -> tuple[str, ...]:
    """Issuers to prefer where a server names several."""
    if identity.issuer is not None:
        return (identity.issuer,)
    return () if held is None else (held.issuer,)


class _Shown(Quiet, frozen=True):
    issuer: str


def _check_secret(place: Place, grant: Grant) -> Flow[None]:
    """A secret is shown to one issuer: the one it was given for, or the first that a server named.

    Raises:
        AuthError: this server names another one, which would learn the secret.
    """
    identity, secret = grant.identity, grant.identity.client_secret
    if (secret is None and not grant.shows_token) or identity.issuer is not None:
        return
    key = ("secret", identity.client_id or "", hashlib.sha256((secret or "").encode()).hexdigest()[:16])
    shown = yield from load(key, _Shown)
    if shown is None:
        yield from save(key, _Shown(place.issuer))
    elif shown.issuer != place.issuer:
        raise AuthError(
            f"what proves who we are is used with the issuer {shown.issuer}, but the server names {place.issuer}",
            fault="client",
            advice="give issuer=…, with what belongs to that issuer, if it is to be trusted",
        )


def _leave(url: str, held: Held, place: Place, identity: Identity) -> Flow[None]:
    """The server has gone over to another issuer: nothing of the old one's is good there.

    Raises:
        AuthError: the client was registered by hand, and with the old one.
    """
    yield from forget(url, held)
    yield Progress("issuer", f"the server has moved from {held.issuer} to {place.issuer}")
    if identity.client_id is not None and identity.issuer is None:
        raise AuthError(
            f"the client_id was registered with the issuer {held.issuer}, but the server names {place.issuer} now",
            fault="client",
            advice="register with that issuer, and give the new client_id",
        )


def _refreshed(url: str, held: Held, place: Place, grant: Grant, sources: Sources) -> Flow[Held | None]:
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
    return (yield from _keep(url, Held(binding=held.binding, tokens=tokens, place=place)))


def _registered(place: Place, held: Held, identity: Identity) -> Flow[Registration | None]:
    """Who we were when the tokens were given to us."""
    if identity.client_id is not None:
        return preregistered(place, identity, None)
    return (yield from load(client_key(place.issuer, held.binding.client_id), Registration))


def _keep(url: str, held: Held) -> Flow[Held]:
    yield from save(token_key(held.binding), held.tokens)
    yield from save(server_key(url), held.binding)
    return held
