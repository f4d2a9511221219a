"""Authentication of HTTP requests, and challenges for refused ones.

It uses the request headers only, before the body is read, on every request, in sessions too. The token comes
from one header and is passed to the verifiers; it is not stored, logged or forwarded. During the request,
token exchange finds it in `current_token`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from ...core.principal import Principal
from ...core.rights import MissingScope
from ...errors import DovetailError, http_status
from ...stores.base import Store
from ...stores.quotas import quota_owner
from ...wire.seal import Seal
from ..core import oauth_urls, resource
from ..core.challenge import bearer, proving, write
from ..core.scopes import scope_text
from .current_token import proof
from .dpop_validator import ALGORITHMS, DpopValidator, InvalidProof, MissingNonce
from .verifier import InvalidToken, Unavailable, as_verifier
from .verifier_routes import Page, PageAnswer, PageRequest

LONGEST_TOKEN: Final = 16 << 10
"""Characters of an Authorization header; a longer one is refused."""


class RequestHead(Protocol):
    """The used parts of a request head."""

    method: str
    path: str
    headers: Mapping[str, str]

    @property
    def scope(self) -> Mapping[str, Any]: ...
    @property
    def prefix(self) -> str: ...


class PageHead(RequestHead, Protocol):
    """The request data that pages use."""

    @property
    def query(self) -> str: ...


class NoToken(DovetailError):
    """The request has no token."""

    kind = "authentication_failed"


class Authenticator:
    """The verifiers of one app, and its metadata."""

    def __init__(
        self,
        auth: Any,
        *,
        name: str,
        path: str,
        resource: str | None = None,
        authorization_servers: Iterable[str] = (),
        store: Store | None = None,
        nonces: Seal | None = None,
    ) -> None:
        whole = as_verifier(auth)
        self._verifiers = tuple(whole.members())
        self.pages: dict[str, Page] = {}
        """The pages of the verifiers, by path."""
        for one in self._verifiers:
            one.attach(store)
            self.pages |= one.pages(path)
        proves = any(one.proves for one in self._verifiers)
        self._proofs: DpopValidator | None = DpopValidator(store, nonces=nonces) if proves else None
        named = [one.header for one in self._verifiers] + (["dpop"] if self._proofs is not None else [])
        self.headers: tuple[str, ...] = tuple(dict.fromkeys(named))
        """The headers that may contain a token, in lower case."""
        self._name = name
        self._path = path
        self._resource = resource or whole.audience
        self._servers = tuple(authorization_servers) or whole.issuers
        self._described: dict[str, Any] = {}
        for one in self._verifiers:
            self._described |= one.described

    async def page(self, head: PageHead, body: bytes, offered: frozenset[str]) -> PageAnswer:
        """Return the response of a verifier's page."""
        owner = quota_owner(None, head.scope)
        request = PageRequest(head.method, head.query, head.headers, body, offered, owner)
        return await self.pages[head.path](request)

    async def enter(self, head: RequestHead) -> Principal:
        """Return the principal of this request.

        Raises:
            NoToken, InvalidToken, MissingScope: the request is refused. `challenge` returns the header.
            Unavailable: the token cannot be verified now.
        """
        refusal: DovetailError | None = None
        away: Unavailable | None = None
        for verifier in self._verifiers:
            try:
                token = _token(head.headers, verifier.header, verifier.proves)
                if token is None:
                    continue
                principal = await verifier.verify(token, head.scope)
                if principal is not None and ("cnf" in principal.claims or _is_proved(head.headers)):
                    await self._prove(head, token, principal)
            except InvalidToken as error:
                refusal = error
                continue
            except Unavailable as error:
                away = error  # another verifier may be available
                continue
            if principal is None:
                refusal = InvalidToken("no verifier accepts the token")
            elif verifier.scopes and not principal.scopes.issuperset(verifier.scopes):
                refusal = MissingScope(frozenset(verifier.scopes))
            else:
                if verifier.header == "authorization":
                    proof.set((principal, token))
                return principal
        raise (
            away
            or refusal
            or NoToken("authentication required: send a token in the header Authorization: Bearer …")
        )

    async def _prove(self, head: RequestHead, token: str, principal: Principal) -> None:
        """Check the DPoP proof of a bound token. Raises: InvalidToken."""
        if self._proofs is None or not _is_proved(head.headers):
            raise InvalidProof("the token is bound to a key (cnf): send it with the scheme DPoP, and a proof")
        places = [f"{self._origin(head)}{head.prefix}{head.path}"]
        if self._resource is not None and resource.is_url(self._resource):
            # The external URL is unknown when running under a proxy; the configured audience is used too.
            places = [f"{oauth_urls.origin(self._resource)}{head.prefix}{head.path}"]
            if head.path.rstrip("/") == self._path.rstrip("/"):
                places.append(self._resource)
        await self._proofs.check(head.headers.get("dpop"), token, principal, head.method, places)

    def challenge(self, error: DovetailError, head: RequestHead, offered: Iterable[str] = ()) -> str:
        """Return ``WWW-Authenticate`` for ``error``. ``offered`` are the scopes of all components."""
        basic = self._basic
        code = _error_code(error)
        wanted = error.scopes | basic if isinstance(error, MissingScope) else basic or offered
        scope = scope_text(wanted)
        said = bearer(
            resource_metadata=self._metadata_url(head),
            scope=scope,
            error=code,
            description=None if code is None else error.message,
        )
        if self._proofs is not None and (isinstance(error, InvalidProof) or _is_proved(head.headers)):
            said = proving(said, ALGORITHMS)
        return write(said)

    def nonce(self, error: DovetailError) -> str | None:
        """Return ``DPoP-Nonce`` for ``error``, or None."""
        return None if self._proofs is None or not isinstance(error, InvalidProof) else self._proofs.nonce()

    def metadata(self, head: RequestHead, offered: Iterable[str]) -> bytes:
        """Return the metadata document, which needs no token."""
        scopes = sorted(self._basic.union(offered))
        algorithms = () if self._proofs is None else ALGORITHMS
        where = self._resource or self._url(head)
        return resource.describe(where, self._servers, scopes, self._name, algorithms, self._described)

    @property
    def _basic(self) -> frozenset[str]:
        """Return the scopes that every caller needs."""
        return frozenset(scope for one in self._verifiers for scope in one.scopes)

    def _metadata_url(self, head: RequestHead) -> str:
        if self._resource is not None and resource.is_url(self._resource):
            return resource.metadata_url(self._resource)
        # Below a prefix only URLs with that prefix reach this app; the header may name any URL.
        origin = self._origin(head)
        return f"{origin}{head.prefix}{resource.WELL_KNOWN}{self._path}"

    def _url(self, head: RequestHead) -> str:
        return f"{self._origin(head)}{head.prefix}{self._path}"

    @staticmethod
    def _origin(head: RequestHead) -> str:
        """Return the origin in the caller's request. It is only sent back to the caller."""
        scheme = {"ws": "http", "wss": "https"}.get(
            head.scope.get("scheme", "http"), head.scope.get("scheme", "http")
        )
        return f"{scheme}://{head.headers.get('host', 'localhost')}"


def _error_code(error: DovetailError) -> str | None:
    """Return the ``error`` of a challenge (RFC 6750, 3.1; RFC 9449, 7.1)."""
    if isinstance(error, NoToken):
        return None
    if isinstance(error, MissingNonce):
        return "use_dpop_nonce"
    if isinstance(error, InvalidProof):
        return "invalid_dpop_proof"
    # The caller is known, and another token of the same user would not help.
    return "insufficient_scope" if http_status(error.kind) == 403 else "invalid_token"


def plain_challenge(error: DovetailError) -> str:
    """Return the challenge of a server without verifiers whose components require scopes."""
    scopes = error.scopes if isinstance(error, MissingScope) else ()
    return write(bearer(scope=scope_text(scopes), error="insufficient_scope", description=error.message))


def _is_proved(headers: Mapping[str, str]) -> bool:
    """Return whether the request contains a DPoP proof (RFC 9449, 7.1)."""
    return headers.get("authorization", "")[:5].lower() == "dpop "


def _token(headers: Mapping[str, str], name: str, proves: bool) -> str | None:
    """Return the token in this header, or None.

    Raises:
        InvalidToken: the header is malformed.
    """
    value = headers.get(name)
    if value is None:
        return None
    if len(value) > LONGEST_TOKEN:
        raise InvalidToken(f"the token exceeds {LONGEST_TOKEN} characters")
    if name != "authorization":
        return value or None
    scheme, _, token = value.partition(" ")
    if scheme.lower() != "bearer" and not (proves and scheme.lower() == "dpop"):
        return None  # another scheme
    token = token.strip(" ")
    # RFC 6750, 2.1, simplified: verifiers validate their tokens, and a pattern would be slower.
    if not token or not token.isascii() or " " in token or "," in token:
        raise InvalidToken("the value after Bearer is not a valid token")
    return token
