"""Who sends a request, and what is said to those who may not: the one door of authentication over HTTP.

``auth`` verifies tokens (`auth.server.gate`); ``principal`` is for surroundings that have authenticated already.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ....core.principal import Principal, as_principal
from ....core.rights import MissingScope
from ....drivers.run import mask
from ....errors import DovetailError, http_status
from ....settings import HttpOptions
from .http_exchange import TEXT_TYPE, Exchange, Head, Headers, HttpService

if TYPE_CHECKING:
    from ....auth.server.authenticate import Gate

LONGEST_TIMER: Final = 31_536_000.0
"""Seconds; no stream lives that long, whatever its token says."""

log = logging.getLogger("dovetail")


class Identity:
    """The callers of one app."""

    def __init__(self, service: HttpService, options: HttpOptions) -> None:
        auth: Any = service.auth if options.auth is None else options.auth
        if auth is not None and options.principal is not None:
            raise DovetailError("give auth or principal, not both: one of them says who is calling")
        self._service = service
        self._principal = options.principal
        self._gate: Gate | None = None
        self.places: tuple[str, ...] = ()
        """Where the metadata lies. RFC 9728: the well-known part stands before the path of the resource."""
        if auth is not None:
            from ....auth.core.resource import WELL_KNOWN  # a server that asks nobody does without all this
            from ....auth.server.authenticate import Gate

            self.places = (WELL_KNOWN, WELL_KNOWN + options.path.rstrip("/"))
            self._gate = Gate(
                auth,
                name=service.name,
                path=options.path,
                resource=options.resource,
                authorization_servers=options.authorization_servers,
                store=service.store,
                nonces=service.seal if options.dpop_nonces else None,
            )
        self.asked = auth is not None or options.principal is not None
        """Whether anybody wants to know who calls."""
        self.headers: tuple[str, ...] = () if self._gate is None else self._gate.headers
        """Those that say who it is: each may come once."""

    @property
    def pages(self) -> Iterable[str]:
        """Where the verifiers have pages of their own."""
        return () if self._gate is None else self._gate.pages

    async def show(self, exchange: Exchange, body: bytes) -> None:
        """Answer a request for one of them."""
        assert self._gate is not None
        try:
            found = await self._gate.page(exchange, body, self._service.component_scopes())
        except Exception:  # noqa: BLE001  the store, or a function of the author's; the log says what
            error = mask("a page of the authorization server")
            await exchange.answer(500, error.message.encode(), kind=TEXT_TYPE)
        else:
            await exchange.answer(found.status, found.body, found.headers, ("content-type", found.kind))

    async def of(self, head: Head) -> Principal | None:
        """Who is calling.

        Raises:
            DovetailError: nobody we serve, or it could not be found out; nothing internal is in it.
        """
        try:
            if self._gate is not None:
                return await self._gate.enter(head)
            return None if self._principal is None else as_principal(self._principal(head.scope))
        except DovetailError as error:
            log_refusal(error, head)
            raise
        except Exception:  # noqa: BLE001  the author's function failed; the client learns only that
            raise mask("the principal of a request") from None

    def challenge(self, error: DovetailError, head: Head, status: int) -> Headers:
        """What goes with a stranger's ``error``, so that the caller knows how to come back."""
        if self._gate is None or status not in (401, 403):
            return ()
        challenge = self._gate.challenge(error, head, self._service.component_scopes())
        nonce = self._gate.nonce(error)
        named = (("www-authenticate", challenge),)
        return named if nonce is None else (*named, ("dpop-nonce", nonce), ("cache-control", "no-store"))

    def step_up(self, error: DovetailError, head: Head) -> Headers:
        """What goes with the ``error`` of a call: a challenge where further scopes would help."""
        if not isinstance(error, MissingScope):
            return ()
        if self._gate is None:
            from ....auth.server.authenticate import plain_challenge

            return (("www-authenticate", plain_challenge(error)),)
        said = self._gate.challenge(error, head)
        return (("www-authenticate", said),)

    async def describe(self, exchange: Exchange) -> bool:
        """Answer a request for our metadata, which needs no token."""
        assert self._gate is not None
        if exchange.method == "OPTIONS":
            await exchange.answer(204, headers=_ANYBODY)
        elif exchange.method == "GET":
            document = self._gate.metadata(exchange, self._service.component_scopes())
            await exchange.answer(200, document, _ANYBODY)
        else:
            await exchange.answer(405, headers=[("allow", "GET, OPTIONS")])
        return False


_ANYBODY: Headers = (
    ("access-control-allow-origin", "*"),
    ("access-control-allow-headers", "*"),
    ("cache-control", "no-store"),
)
"""Pages of every origin may read what is no secret; shared caches may not, as it names the host that was asked."""


def log_refusal(error: DovetailError, head: Head) -> None:
    """Log why a caller is not let in. A request without a token is how logins begin, so it is no news."""
    level = logging.DEBUG if error.kind == "authentication_failed" else logging.INFO
    log.log(level, "request refused kind=%s path=%s reason=%s", error.kind, head.path, error.message)


@contextmanager
def until_expiry(
    principal: Principal | None, now: float, end: Callable[[], object]
) -> Generator[None, None, None]:
    """Call ``end`` when the token of ``principal`` expires, unless the block is left before: what it opened is over.

    What ``end`` returns may have to be awaited. Calls that were let in are finished: who ends a connection drains it.
    """
    expires = None if principal is None else principal.expires
    if expires is None:
        yield
        return
    ending: list[asyncio.Future[Any]] = []  # somebody has to hold it

    def over() -> None:
        done = end()
        if inspect.isawaitable(done):
            ending.append(asyncio.ensure_future(done))

    timer = asyncio.get_running_loop().call_later(min(max(0.0, expires - now), LONGEST_TIMER), over)
    try:
        yield
    finally:
        timer.cancel()


def status_of_stranger(error: DovetailError) -> int:
    """The status for a caller whose principal cannot be told; never 200, which is for those let in."""
    if error.kind == "internal_error":
        return 500
    status = http_status(error.kind)
    return 403 if status == 200 else status
