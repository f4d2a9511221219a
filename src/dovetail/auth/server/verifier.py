"""`Verifier`: maps a token to a principal.

``auth=`` accepts a `Verifier` or any ``async def verify(token, scope) -> Principal | None``; a plain function
runs in a thread. Built-in verifiers raise `InvalidToken` with the reason; a custom function refuses by
returning None.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, cast, runtime_checkable

from ...core.principal import Principal
from ...errors import DovetailError
from ...settings import check_kinds
from ...settings.parameter_kinds import SCOPES
from ...stores.base import Store
from ..core.scopes import scope_list
from .verifier_routes import Page

Scope = Mapping[str, Any]
Verify = Callable[..., Awaitable[Principal | None]]


class InvalidToken(DovetailError):
    """The token is not accepted. The message is sent to the caller; it contains nothing of the token."""

    kind = "invalid_token"


class Unavailable(DovetailError):
    """The token cannot be verified now: keys or the authorization server are not available."""

    kind = "temporarily_unavailable"


def _awaitable(verify: Callable[..., Any]) -> Verify:
    """Wrap a plain function so that it runs in a thread, because it may block."""
    if inspect.iscoroutinefunction(verify) or inspect.iscoroutinefunction(type(verify).__call__):
        return verify

    async def in_thread(*given: Any) -> Principal | None:
        found = await asyncio.to_thread(verify, *given)
        return await found if inspect.isawaitable(found) else found

    return in_thread


class Verifier:
    """Verifies tokens. Subclasses implement `verify`."""

    header: str = "authorization"
    """The header that contains the token, in lower case; in ``authorization`` it follows the scheme Bearer.
    """
    issuers: tuple[str, ...] = ()
    """The authorization servers whose tokens are accepted."""
    audience: str | None = None
    """The expected audience: the ``resource`` of the metadata."""
    proves: bool = False
    """Tokens may be bound to a key (claim ``cnf``); the sender must then prove possession (DPoP)."""
    scopes: tuple[str, ...] = ()
    """Scopes that every caller needs."""
    described: Mapping[str, Any] = {}
    """Members of the metadata (RFC 9728) that replace the computed ones."""

    def __init__(self, *, scopes: str | Iterable[str] = ()) -> None:
        check_kinds(
            {
                "scopes": SCOPES,
            },
            locals(),
        )
        self.scopes = scope_list(scopes)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "verify" in vars(cls):
            cls.verify = cast("Any", _awaitable(cls.verify))

    async def verify(self, token: str, scope: Scope) -> Principal | None:
        """Return the principal of ``token``; None if it is not accepted.

        Raises:
            InvalidToken: it is not accepted; the message says why.
            Unavailable: it cannot be verified now.
        """
        raise NotImplementedError

    async def __call__(self, token: str, scope: Scope) -> Principal | None:
        return await self.verify(token, scope)

    def members(self) -> Iterator[Verifier]:
        """Yield the member verifiers, in order."""
        yield self

    def attach(self, store: Store | None) -> None:
        """Set the store of the server, if any, before the first verification."""

    def pages(self, path: str) -> Mapping[str, Page]:
        """Return additional pages for an endpoint at ``path``; most verifiers have none."""
        return {}


@runtime_checkable
class _Verifies(Protocol):
    """An object with a `verify` method."""

    async def verify(self, token: str, scope: Scope) -> Principal | None: ...


class OwnVerifier(Verifier):
    """A custom verify function."""

    def __init__(self, verify: Verify) -> None:
        super().__init__()
        self._verify = _awaitable(verify)

    async def verify(self, token: str, scope: Scope) -> Principal | None:
        found: Any = await self._verify(token, scope)
        if found is None or isinstance(found, Principal):
            return found
        raise TypeError(f"verify must return a Principal or None, not {type(found).__name__}")


class AnyOf(Verifier):
    """Accepts what any of several verifiers accepts: ``AnyOf(JwtVerifier(...), ApiKeys({...}))``."""

    def __init__(self, *verifiers: Any) -> None:
        """Set the verifiers.

        Args:
            verifiers: Verifiers to try in this order; the first that accepts a token decides.
        """
        super().__init__()
        self._members = [member for one in verifiers for member in as_verifier(one).members()]
        self.issuers = tuple(dict.fromkeys(issuer for one in self._members for issuer in one.issuers))
        audiences = {one.audience for one in self._members if one.audience is not None}
        if len(audiences) > 1:
            raise ValueError("all verifiers of AnyOf must have the same audience")
        self.audience = next(iter(audiences), None)

    def members(self) -> Iterator[Verifier]:
        yield from self._members

    async def verify(self, token: str, scope: Scope) -> Principal | None:
        refusal: InvalidToken | Unavailable | None = None
        for one in self._members:
            try:
                found = await one.verify(token, scope)
            except Unavailable as error:
                refusal = error  # another verifier may be available
            except InvalidToken as error:
                refusal = refusal or error
            else:
                if found is not None:
                    return found
        if refusal is not None:
            raise refusal
        return None


def as_verifier(auth: Any) -> Verifier:
    """Return ``auth=`` as a verifier.

    Raises:
        TypeError: it is not a verifier or a function.
    """
    if isinstance(auth, Verifier):
        return auth
    verify = auth.verify if isinstance(auth, _Verifies) and not inspect.isclass(auth) else auth
    if inspect.isclass(verify) or not callable(verify):
        raise TypeError(
            "auth must be a verifier such as StaticTokens(...), or async def verify(token, scope)"
        )
    return OwnVerifier(cast("Verify", verify))
