"""Token exchange (RFC 8693): exchange the token of a caller for one of another resource."""

from __future__ import annotations

from collections.abc import Mapping

from . import oauth_urls
from .auth_errors import AuthError
from .discovery import AuthorizationTarget, find_server
from .registration import NONE, SECRET_BASIC, ClientRegistration, Identity, preregistered
from .steps import Answer, Flow, Quiet, Sources, post
from .token_endpoint import ask_proving, authenticate_client
from .token_error_response import refused
from .token_set import Tokens, check_token, read_tokens

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
JWT = "urn:ietf:params:oauth:token-type:jwt"


class ExchangeEndpoint(Quiet, frozen=True):
    """The token endpoint for exchanges, and the client's registration there."""

    url: str
    client: ClientRegistration
    configured: bool
    """The user configured the URL."""


class IssuedToken(Quiet, frozen=True):
    access_token: str
    issued_token_type: str | None = None


def known_endpoint(url: str, identity: Identity) -> ExchangeEndpoint:
    """Return the endpoint at a configured URL."""
    client = ClientRegistration(
        issuer=oauth_urls.origin(url),
        client_id=identity.client_id or "",
        client_secret=identity.client_secret,
        method=identity.method or (NONE if identity.client_secret is None else SECRET_BASIC),
    )
    return ExchangeEndpoint(url, client, True)


def find_endpoint(issuer: str, identity: Identity) -> Flow[ExchangeEndpoint]:
    """Return the endpoint in the metadata of ``issuer``.

    Raises:
        AuthError: it is missing.
    """
    place = AuthorizationTarget("", (yield from find_server(issuer)))
    return ExchangeEndpoint(place.token_endpoint, preregistered(place, identity, None), False)


def ask_exchange(
    what: str, endpoint: ExchangeEndpoint, form: Mapping[str, str], sources: Sources
) -> Flow[Answer]:
    whole = {"grant_type": EXCHANGE, **form}
    headers = authenticate_client(endpoint.client, whole, sources)
    request = post(what, endpoint.url, whole, headers, configured=endpoint.configured)
    return (yield from ask_proving(request, None))


def exchange(
    endpoint: ExchangeEndpoint, subject: str, wanted: Mapping[str, str], sources: Sources
) -> Flow[Tokens]:
    """Request a token for ``wanted`` (``audience``, ``resource``, ``scope``) on behalf of the owner of
    ``subject``.

    Raises:
        AuthError: the exchange failed.
    """
    form = {
        "requested_token_type": ACCESS_TOKEN,
        "subject_token": check_token(subject, "caller's token"),
        "subject_token_type": ACCESS_TOKEN,
        **wanted,
    }
    answer = yield from ask_exchange("the exchanged token", endpoint, form, sources)
    issuer = endpoint.client.issuer
    if answer.status != 200:
        raise refused(answer, f"{issuer} does not exchange the caller's token")
    found = answer.read(IssuedToken, "the answer to the token exchange", "authorization server")
    if found.issued_token_type not in (None, ACCESS_TOKEN, JWT):
        raise AuthError(f"{issuer} gave no access token in exchange", fault="authorization server")
    if found.access_token == subject:
        # The upstream could use it at this server, on behalf of the caller.
        raise AuthError(
            f"{issuer} returned the caller's token, which must not be forwarded", fault="authorization server"
        )
    return read_tokens(answer, sources.now())
