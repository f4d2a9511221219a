"""Grants: the flows that obtain tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from . import oauth_urls
from .auth_errors import AuthError
from .authorization import begin, read_redirect
from .discovery import AuthorizationTarget
from .pkce import check_s256
from .registration import PRIVATE_KEY, ClientRegistration, Identity, preregistered, register, registration_key
from .scope_choice import with_offline
from .steps import Browse, Flow, Listen, Pause, Progress, Quiet, Show, Sources, Supply, ask, load, post
from .token_endpoint import Signer, authenticate_client, request_tokens
from .token_error_response import refused
from .token_exchange import IssuedToken, ask_exchange, known_endpoint
from .token_set import Tokens, check_token

DEVICE_INTERVAL: Final = 5.0
"""Default polling interval of the device flow in seconds (RFC 8628)."""
DEVICE_SECONDS: Final = 1800.0
"""Timeout of the device flow in seconds, whatever the lifetime of the code."""


JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"

Obtained = tuple[ClientRegistration, Tokens]


class Grant(Protocol):
    """A flow that obtains tokens."""

    @property
    def identity(self) -> Identity: ...

    @property
    def signer(self) -> Signer | None: ...

    @property
    def silent(self) -> bool:
        """It needs no user, so it can be repeated at any time."""
        ...

    @property
    def shows_token(self) -> bool:
        """The token endpoint receives a token that may be valid elsewhere."""
        ...

    def obtain(self, place: AuthorizationTarget, scopes: tuple[str, ...], sources: Sources) -> Flow[Obtained]:
        """Obtain tokens. Raises: AuthError."""
        ...


class AuthorizationCode:
    """The user logs in with a browser."""

    silent = False
    shows_token = False
    signer = None

    def __init__(self, identity: Identity) -> None:
        self.identity = identity

    def obtain(self, place: AuthorizationTarget, scopes: tuple[str, ...], sources: Sources) -> Flow[Obtained]:
        check_s256(place.server)
        scopes = with_offline(place, scopes)
        before = yield from load(registration_key(place.issuer), ClientRegistration)
        redirect_uri: str = yield Listen(None if before is None else before.redirect_uri)
        client = yield from register(place, self.identity, redirect_uri, scopes, sources.now())
        url, pending = begin(place, client, redirect_uri, scopes, sources)
        yield Progress("authorization", f"the user is sent to {oauth_urls.origin(url)}")
        came_back: str = yield Browse(url, redirect_uri, pending.state)
        form = {
            "grant_type": "authorization_code",
            "code": read_redirect(came_back, pending),
            "redirect_uri": redirect_uri,
            "code_verifier": pending.verifier,
        }
        tokens = yield from request_tokens(place, client, form, sources)
        return client, tokens


class Credentials:
    """A machine, authenticated by a secret or a key (SEP-1046)."""

    silent = True
    shows_token = False

    def __init__(self, identity: Identity, signer: Signer | None = None) -> None:
        self.identity = identity
        self.signer = signer

    def obtain(self, place: AuthorizationTarget, scopes: tuple[str, ...], sources: Sources) -> Flow[Obtained]:
        client = preregistered(place, self.identity, None)
        if client.method == PRIVATE_KEY:
            _check_offered(place, PRIVATE_KEY)
        form = {"grant_type": "client_credentials"}
        tokens = yield from request_tokens(place, client, form, sources, scopes=scopes, signer=self.signer)
        return client, tokens


def _check_offered(place: AuthorizationTarget, method: str) -> None:
    offered = place.server.token_endpoint_auth_methods_supported
    if offered is not None and method not in offered:
        raise AuthError(
            f"the token endpoint of {place.issuer} does not take {method}",
            fault="client",
            advice=f"it takes {', '.join(offered)}",
        )


class _DeviceAnswer(Quiet, frozen=True):
    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str | None = None
    expires_in: float = DEVICE_SECONDS
    interval: float = DEVICE_INTERVAL


class Device:
    """The user logs in with a browser on another device (RFC 8628)."""

    silent = False
    shows_token = False
    signer = None

    def __init__(self, identity: Identity) -> None:
        self.identity = identity

    def obtain(self, place: AuthorizationTarget, scopes: tuple[str, ...], sources: Sources) -> Flow[Obtained]:
        scopes = with_offline(place, scopes)
        client = yield from register(place, self.identity, None, scopes, sources.now())
        found = yield from self._begin(place, client, scopes, sources)
        complete = found.verification_uri_complete
        for page in (found.verification_uri, complete):
            if page is not None:
                oauth_urls.split(page, "the verification_uri", "authorization server")
        yield Show(found.verification_uri, found.user_code, complete, found.expires_in)
        tokens = yield from self._poll(place, client, found, sources)
        return client, tokens

    def _begin(
        self, place: AuthorizationTarget, client: ClientRegistration, scopes: Sequence[str], sources: Sources
    ) -> Flow[_DeviceAnswer]:
        name = "device_authorization_endpoint"
        endpoint = place.endpoint(name, place.server.device_authorization_endpoint)
        form = {"resource": place.resource}
        if scopes:
            form["scope"] = " ".join(scopes)
        headers = authenticate_client(client, form, sources)
        form["client_id"] = client.client_id
        answer = yield from ask(post("the device code", endpoint, form, headers))
        if answer.status != 200:
            raise refused(answer, f"{place.issuer} gave no device code")
        return answer.read(_DeviceAnswer, "the answer with the device code", "authorization server")

    def _poll(
        self, place: AuthorizationTarget, client: ClientRegistration, found: _DeviceAnswer, sources: Sources
    ) -> Flow[Tokens]:
        form = {"grant_type": DEVICE, "device_code": found.device_code}
        interval = min(max(found.interval, 1.0), DEVICE_SECONDS)
        end = sources.now() + min(found.expires_in, DEVICE_SECONDS)
        while sources.now() < end:
            yield Pause(interval)
            try:
                return (yield from request_tokens(place, client, form, sources))
            except AuthError as error:
                if error.error == "slow_down":
                    interval += DEVICE_INTERVAL
                elif error.error != "authorization_pending":
                    raise
        raise AuthError("the code was not entered in time", fault="user", error="expired_token")


class Workload:
    """A workload with a JWT from its platform (SEP-1933)."""

    silent = True
    shows_token = True
    signer = None

    def __init__(self, identity: Identity, token: Callable[[], Any]) -> None:
        self.identity = identity
        self._token = token

    def obtain(self, place: AuthorizationTarget, scopes: tuple[str, ...], sources: Sources) -> Flow[Obtained]:
        client = preregistered(place, self.identity, None)
        token: str = yield Supply(self._token, "the workload's token")
        form = {"grant_type": JWT_BEARER, "assertion": check_token(token, "workload's token")}
        tokens = yield from request_tokens(place, client, form, sources, scopes=scopes)
        return client, tokens


class EnterpriseAssertion:
    """An employee, asserted by the company's identity provider (SEP-990): ID token, ID-JAG, access token."""

    silent = True
    shows_token = False
    signer = None

    def __init__(self, identity: Identity, idp: Identity, endpoint: str, token: Callable[[], Any]) -> None:
        self.identity = identity
        self._idp = idp
        self._endpoint = oauth_urls.secure(endpoint, "idp_token_endpoint", "client")
        self._token = token

    def obtain(self, place: AuthorizationTarget, scopes: tuple[str, ...], sources: Sources) -> Flow[Obtained]:
        client = preregistered(place, self.identity, None)
        vouched = yield from self._exchange(place, scopes, sources)
        yield Progress("assertion", f"{oauth_urls.origin(self._endpoint)} vouches for the user")
        form = {"grant_type": JWT_BEARER, "assertion": vouched}
        tokens = yield from request_tokens(place, client, form, sources)
        return client, tokens

    def _exchange(self, place: AuthorizationTarget, scopes: Sequence[str], sources: Sources) -> Flow[str]:
        """Exchange the ID token for an ID-JAG (RFC 8693)."""
        token: str = yield Supply(self._token, "the ID token")
        form = {
            "requested_token_type": ID_JAG,
            "audience": place.issuer,
            "resource": place.resource,
            "subject_token": check_token(token, "ID token"),
            "subject_token_type": ID_TOKEN,
        }
        if scopes:
            form["scope"] = " ".join(scopes)
        issuer = oauth_urls.origin(self._endpoint)
        endpoint = known_endpoint(self._endpoint, self._idp)
        answer = yield from ask_exchange("the ID-JAG", endpoint, form, sources)
        if answer.status != 200:
            raise refused(answer, f"the identity provider {issuer} did not vouch for the user")
        found = answer.read(IssuedToken, "the answer of the identity provider", "authorization server")
        if found.issued_token_type not in (None, ID_JAG):
            raise AuthError(f"the identity provider {issuer} gave no ID-JAG", fault="authorization server")
        return check_token(found.access_token, "ID-JAG")
