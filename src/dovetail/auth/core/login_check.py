"""Check a server's authorization setup without logging in."""

from __future__ import annotations

from .auth_errors import AuthError
from .combined_challenge import Demand
from .discovery import AuthorizationTarget, discover
from .pkce import check_s256
from .registration import Identity
from .steps import Flow, Progress

STEPS = ("resource", "metadata", "pkce", "registration", "authorization", "token", "accepted")
"""The steps from a challenge to an accepted token, in order."""


def examine(url: str, demand: Demand, identity: Identity) -> Flow[AuthorizationTarget]:
    """Run the steps from the challenge to the login page.

    Raises:
        AuthError: the first failed step.
    """
    place = yield from discover(url, demand, () if identity.issuer is None else (identity.issuer,))
    place.endpoint("authorization_endpoint", place.server.authorization_endpoint)
    _ = place.token_endpoint
    check_s256(place.server)
    yield Progress("pkce", "S256 is offered")
    yield Progress("registration", _way_to_register(place, identity))
    return place


def _way_to_register(place: AuthorizationTarget, identity: Identity) -> str:
    server = place.server
    if identity.client_id is not None:
        return f"the client is {identity.client_id}"
    if server.client_id_metadata_document_supported and identity.client_metadata_url is not None:
        return f"the client is described by {identity.client_metadata_url}"
    if server.registration_endpoint is not None:
        return "clients may register themselves"
    known = "takes Client ID Metadata Documents" if server.client_id_metadata_document_supported else ""
    raise AuthError(
        f"{place.issuer} does not let clients register themselves{' but ' + known if known else ''}",
        fault="client",
        advice="give --client-metadata-url" if known else "register a client there and give --client-id",
    )
