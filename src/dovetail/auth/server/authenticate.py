"""Who sends a request over HTTP, and what is said to those who may not.

A gate looks at the head of a request alone: before a body is read, on every request, in sessions too. The token comes
from a header and from nowhere else; it is handed to the verifiers, and neither kept nor logged nor passed on. While the
request is served, whoever exchanges tokens finds it in `proven.py`.
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
from .dpop_validator import ALGORITHMS, InvalidProof, MissingNonce, Proofs
from .verifier import InvalidToken, Unavailable, as_verifier
from .verifier_routes import Page, PageAnswer, PageRequest

LONGEST_TOKEN: Final = 16 << 10
"""Characters of an Authorization header; a longer one is refused without reading it."""


class Head(Protocol):
    """What a gate looks at."""

    method: str
    path: str
    headers: Mapping[str, str]

    @property
    def scope(self) -> Mapping[str, Any]: ...
    @property
    def prefix(self) -> str: ...


class Asked(Head, Protocol):
    """What a page looks at."""

    @property
    def query(self) -> str: ...


class NoToken(DovetailError):
    """The caller has not said who it is."""

    kind = "authentication_failed"


class Gate:
    """The verifiers of one app, and what its metadata says."""

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
        """What the verifiers answer themselves, by path."""
        for one in self._verifiers:
            one.attach(store)
            self.pages |= one.pages(path)
        proves = any(one.proves for one in self._verifiers)
        self._proofs: Proofs | None = Proofs(store, nonces=nonces) if proves else None
        named = [one.header for one in self._verifiers] + (["dpop"] if self._proofs is not None else [])
        self.headers: tuple[str, ...] = tuple(dict.fromkeys(named))
        """Where tokens come from, in lower case."""
        self._name = name
        self._path = path
        self._resource = resource or whole.audience
        self._servers = tuple(authorization_servers) or whole.issuers
        self._described: dict[str, Any] = {}
        for one in self._verifiers:
            self._described |= one.described

    async def page(self, head: Asked, body: bytes, offered: frozenset[str]) -> PageAnswer:
        """The answer of a page to a request for it."""
        owner = quota_owner(None, head.scope)
        request = PageRequest(head.method, head.query, head.headers, body, offered, owner)
        return await self.pages[head.path](request)

    async def enter(self, head: Head) -> Principal:
        """Who sends this request.

        Raises:
            NoToken, InvalidToken, MissingScope: not somebody to be served. `challenge` has what to say.
            Unavailable: it cannot be told now.
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
                away = error  # another verifier may do without whoever is away
                continue
            if principal is None:
                refusal = InvalidToken("the token is not accepted")
            elif verifier.scopes and not principal.scopes.issuperset(verifier.scopes):
                refusal = MissingScope(frozenset(verifier.scopes))
            else:
                if verifier.header == "authorization":
                    proof.set((principal, token))
                return principal
        raise away or refusal or NoToken("a token is needed, in the header Authorization: Bearer …")

    async def _prove(self, head: Head, token: str, principal: Principal) -> None:
        """Raises `InvalidToken`: the token is bound to a key, and the caller has not proved that he has it."""
        if self._proofs is None or not _is_proved(head.headers):
            raise InvalidProof("the token is bound to a key (cnf): send it with the scheme DPoP, and a proof")
        places = [f"{self._origin(head)}{head.prefix}{head.path}"]
        if self._resource is not None and resource.is_url(self._resource):
            # Behind a proxy we do not know how we were called; this is what we are called.
            places = [f"{oauth_urls.origin(self._resource)}{head.prefix}{head.path}"]
            if head.path.rstrip("/") == self._path.rstrip("/"):
                places.append(self._resource)
        await self._proofs.check(head.headers.get("dpop"), token, principal, head.method, places)

    def challenge(self, error: DovetailError, head: Head, offered: Iterable[str] = ()) -> str:
        """The value of ``WWW-Authenticate`` for ``error``; ``offered`` are the scopes of all components."""
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
        """The value of ``DPoP-Nonce`` beside the challenge for ``error``; None where it needs none."""
        return None if self._proofs is None or not isinstance(error, InvalidProof) else self._proofs.nonce()

    def metadata(self, head: Head, offered: Iterable[str]) -> bytes:
        """The metadata document; whoever asks for it needs no token."""
        scopes = sorted(self._basic.union(offered))
        algorithms = () if self._proofs is None else ALGORITHMS
        where = self._resource or self._url(head)
        return resource.describe(where, self._servers, scopes, self._name, algorithms, self._described)

    @property
    def _basic(self) -> frozenset[str]:
        """Scopes that every caller needs."""
        return frozenset(scope for one in self._verifiers for scope in one.scopes)

    def _metadata_url(self, head: Head) -> str:
        if self._resource is not None and resource.is_url(self._resource):
            return resource.metadata_url(self._resource)
        # Below a prefix only what lies below it reaches us; the header may name any place.
        origin = self._origin(head)
        return f"{origin}{head.prefix}{resource.WELL_KNOWN}{self._path}"

    def _url(self, head: Head) -> str:
        return f"{self._origin(head)}{head.prefix}{self._path}"

    @staticmethod
    def _origin(head: Head) -> str:
        """Where the caller has found us, in its own words: nobody but the caller hears them."""
        scheme = {"ws": "http", "wss": "https"}.get(
            head.scope.get("scheme", "http"), head.scope.get("scheme", "http")
        )
        return f"{scheme}://{head.headers.get('host', 'localhost')}"


def _error_code(error: DovetailError) -> str | None:
    """The ``error`` of a challenge (RFC 6750, 3.1; RFC 9449, 7.1)."""
    if isinstance(error, NoToken):
        return None
    if isinstance(error, MissingNonce):
        return "use_dpop_nonce"
    if isinstance(error, InvalidProof):
        return "invalid_dpop_proof"
    # Another token of the same user would not help: the caller is known, and may not.
    return "insufficient_scope" if http_status(error.kind) == 403 else "invalid_token"


def plain_challenge(error: DovetailError) -> str:
    """What is said where no verifier is set, but a component asks for scopes."""
    scopes = error.scopes if isinstance(error, MissingScope) else ()
    return write(bearer(scope=scope_text(scopes), error="insufficient_scope", description=error.message))


def _is_proved(headers: Mapping[str, str]) -> bool:
    """Whether the caller says that a proof comes with its token (RFC 9449, 7.1)."""
    return headers.get("authorization", "")[:5].lower() == "dpop "


def _token(headers: Mapping[str, str], name: str, proves: bool) -> str | None:
    """The token in this header; None when there is none.

    Raises:
        InvalidToken: there is something, but no token.
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
        return None  # another scheme: nobody here asked for it
    token = token.strip(" ")
    # RFC 6750, 2.1, as far as it matters: verifiers know their tokens, and a pattern costs more than they do.
    if not token or not token.isascii() or " " in token or "," in token:
        raise InvalidToken("what follows the word Bearer is no token")
    return token
