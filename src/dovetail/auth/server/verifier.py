"""What tells a server who is calling: a token in, a principal out.

``auth=`` takes a `Verifier` or any ``async def verify(token, scope) -> Principal | None``; a plain function runs in a
thread. Ours say why they refuse, by raising `InvalidToken`; a function of your own refuses by returning None.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, cast, runtime_checkable

from ...core.principal import Principal
from ...errors import DovetailError
from ...stores.base import Store
from ..core.scopes import scope_list
from .verifier_routes import Page

Scope = Mapping[str, Any]
Verify = Callable[..., Awaitable[Principal | None]]


class InvalidToken(DovetailError):
    """The token is not accepted. The text goes to whoever sent it: nothing of the token, nothing internal is in it."""

    kind = "invalid_token"


class Unavailable(DovetailError):
    """It cannot be told now whether the token is good: the keys or the authorization server cannot be reached."""

    kind = "temporarily_unavailable"


def _awaitable(verify: Callable[..., Any]) -> Verify:
    """The same, to be awaited: a plain function may wait for a database, so it runs in a thread as plain tools do."""
    if inspect.iscoroutinefunction(verify) or inspect.iscoroutinefunction(type(verify).__call__):
        return verify

    async def in_thread(*given: Any) -> Principal | None:
        found = await asyncio.to_thread(verify, *given)
        return await found if inspect.isawaitable(found) else found

    return in_thread


class Verifier:
    """Tells who a token belongs to. Subclasses write `verify`."""

    header: str = "authorization"
    """Where the token stands, in lower case; in ``authorization`` it follows the word Bearer."""
    issuers: tuple[str, ...] = ()
    """The authorization servers whose tokens are accepted."""
    audience: str | None = None
    """What tokens have to be meant for: the ``resource`` of our metadata."""
    proves: bool = False
    """Its tokens may be bound to a key (the claim ``cnf``): then whoever sends one proves that he has it."""
    scopes: tuple[str, ...] = ()
    """Scopes that every caller needs, whatever it calls."""
    described: Mapping[str, Any] = {}
    """Members of our metadata (RFC 9728) in place of those that we find ourselves."""

    def __init__(self, *, scopes: str | Iterable[str] = ()) -> None:
        self.scopes = scope_list(scopes)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "verify" in vars(cls):
            cls.verify = cast("Any", _awaitable(cls.verify))

    async def verify(self, token: str, scope: Scope) -> Principal | None:
        """Who ``token`` belongs to; None when it is not good.

        Raises:
            InvalidToken: it is not good; the text says why.
            Unavailable: that cannot be told now.
        """
        raise NotImplementedError

    async def __call__(self, token: str, scope: Scope) -> Principal | None:
        return await self.verify(token, scope)

    def members(self) -> Iterator[Verifier]:
        """The verifiers this one is made of, in the order they are asked."""
        yield self

    def attach(self, store: Store | None) -> None:
        """Before anything is asked: the store of the server, if it has one, for verifiers that keep something."""

    def pages(self, path: str) -> Mapping[str, Page]:
        """Pages of its own beside the endpoint at ``path``: most verifiers have none."""
        return {}


@runtime_checkable
class _Verifies(Protocol):
    """An object with the one method that counts."""

    async def verify(self, token: str, scope: Scope) -> Principal | None: ...


class OwnVerifier(Verifier):
    """A function of the author's."""

    def __init__(self, verify: Verify) -> None:
        super().__init__()
        self._verify = _awaitable(verify)

    async def verify(self, token: str, scope: Scope) -> Principal | None:
        found: Any = await self._verify(token, scope)
        if found is None or isinstance(found, Principal):
            return found
        raise TypeError(f"verify returns a Principal or None, not {type(found).__name__}")


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
            raise ValueError("one server is one resource: give all verifiers the same audience")
        self.audience = next(iter(audiences), None)

    def members(self) -> Iterator[Verifier]:
        yield from self._members

    async def verify(self, token: str, scope: Scope) -> Principal | None:
        refusal: InvalidToken | Unavailable | None = None
        for one in self._members:
            try:
                found = await one.verify(token, scope)
            except Unavailable as error:
                refusal = error  # another verifier may do without whoever is away
            except InvalidToken as error:
                refusal = refusal or error
            else:
                if found is not None:
                    return found
        if refusal is not None:
            raise refusal
        return None


def as_verifier(auth: Any) -> Verifier:
    """What ``auth=`` was given, as a verifier.

    Raises:
        TypeError: it is none, and no function that could be one.
    """
    if isinstance(auth, Verifier):
        return auth
    verify = auth.verify if isinstance(auth, _Verifies) and not inspect.isclass(auth) else auth
    if inspect.isclass(verify) or not callable(verify):
        raise TypeError("auth is a verifier such as StaticTokens(...), or async def verify(token, scope)")
    return OwnVerifier(cast("Verify", verify))
