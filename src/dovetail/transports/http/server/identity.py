"""Authentication over HTTP: the caller of a request, and the challenge for callers that are refused.

``auth`` verifies tokens (`auth.server.authenticate`); ``principal`` is for hosts that have authenticated the
caller already.
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
from .http_exchange import TEXT_TYPE, Exchange, Headers, HttpService, RequestHeaders

if TYPE_CHECKING:
    from ....auth.server.authenticate import Authenticator

MAX_TIMER: Final = 31_536_000.0
"""Maximum timer in seconds; no stream lasts longer, whatever the token says."""

log = logging.getLogger("dovetail")


class CallerIdentity:
    """Authenticates the callers of one app."""

    def __init__(self, service: HttpService, options: HttpOptions) -> None:
        auth: Any = service.auth if options.auth is None else options.auth
        if auth is not None and options.principal is not None:
            raise DovetailError("set auth or principal, not both: only one can identify the caller")
        self._service = service
        self._principal = options.principal
        self._gate: Authenticator | None = None
        self.metadata_paths: tuple[str, ...] = ()
        """Paths of the metadata. RFC 9728: the well-known segment precedes the path of the resource."""
        if auth is not None:
            from ....auth.core.resource import WELL_KNOWN  # imported only with authentication
            from ....auth.server.authenticate import Authenticator

            self.metadata_paths = (WELL_KNOWN, WELL_KNOWN + options.path.rstrip("/"))
            self._gate = Authenticator(
                auth,
                name=service.name,
                path=options.path,
                resource=options.resource,
                authorization_servers=options.authorization_servers,
                store=service.store,
                nonces=service.seal if options.dpop_nonces else None,
            )
        self.authenticates = auth is not None or options.principal is not None
        """Whether callers are authenticated."""
        self.headers: tuple[str, ...] = () if self._gate is None else self._gate.headers
        """Headers with credentials, which must not be repeated."""

    @property
    def pages(self) -> Iterable[str]:
        """The paths of pages that the verifiers serve."""
        return () if self._gate is None else self._gate.pages

    async def show(self, exchange: Exchange, body: bytes) -> None:
        """Serve one of these pages."""
        assert self._gate is not None
        try:
            found = await self._gate.page(exchange, body, self._service.component_scopes())
        except Exception:  # noqa: BLE001  it was logged
            error = mask("a page of the authorization server")
            await exchange.answer(500, error.message.encode(), kind=TEXT_TYPE)
        else:
            await exchange.answer(found.status, found.body, found.headers, ("content-type", found.kind))

    async def principal_of(self, head: RequestHeaders) -> Principal | None:
        """Return the principal of a request.

        Raises:
            DovetailError: the caller is not authenticated, or authentication failed; without internal
                details.
        """
        try:
            if self._gate is not None:
                return await self._gate.enter(head)
            return None if self._principal is None else as_principal(self._principal(head.scope))
        except DovetailError as error:
            log_refusal(error, head)
            raise
        except Exception:  # noqa: BLE001  a user function failed; the client gets no details
            raise mask("the principal of a request") from None

    def challenge(self, error: DovetailError, head: RequestHeaders, status: int) -> Headers:
        """Return the challenge for a refused caller, which says how to authenticate."""
        if self._gate is None or status not in (401, 403):
            return ()
        challenge = self._gate.challenge(error, head, self._service.component_scopes())
        nonce = self._gate.nonce(error)
        named = (("www-authenticate", challenge),)
        return named if nonce is None else (*named, ("dpop-nonce", nonce), ("cache-control", "no-store"))

    def step_up(self, error: DovetailError, head: RequestHeaders) -> Headers:
        """Return the challenge for a call that failed for missing scopes."""
        if not isinstance(error, MissingScope):
            return ()
        if self._gate is None:
            from ....auth.server.authenticate import plain_challenge

            return (("www-authenticate", plain_challenge(error)),)
        said = self._gate.challenge(error, head)
        return (("www-authenticate", said),)

    async def describe(self, exchange: Exchange) -> bool:
        """Serve the metadata, which needs no token."""
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
"""Pages of any origin may read public metadata.

Shared caches may not store it, because it contains the requested host.
"""


def log_refusal(error: DovetailError, head: RequestHeaders) -> None:
    """Log a refused caller.

    A request without a token starts most logins, so it is logged at a lower level.
    """
    level = logging.DEBUG if error.kind == "authentication_failed" else logging.INFO
    log.log(level, "request refused kind=%s path=%s reason=%s", error.kind, head.path, error.message)


@contextmanager
def until_expiry(
    principal: Principal | None, now: float, end: Callable[[], object]
) -> Generator[None, None, None]:
    """Call ``end`` when the token of ``principal`` expires, unless the block is left before.

    The result of ``end`` is awaited if necessary. Admitted calls finish: closing a connection drains it.
    """
    expires = None if principal is None else principal.expires
    if expires is None:
        yield
        return
    ending: list[asyncio.Future[Any]] = []  # a reference that keeps the task alive

    def over() -> None:
        done = end()
        if inspect.isawaitable(done):
            ending.append(asyncio.ensure_future(done))

    timer = asyncio.get_running_loop().call_later(min(max(0.0, expires - now), MAX_TIMER), over)
    try:
        yield
    finally:
        timer.cancel()


def status_of_stranger(error: DovetailError) -> int:
    """Return the status for an unauthenticated caller; never 200."""
    if error.kind == "internal_error":
        return 500
    status = http_status(error.kind)
    return 403 if status == 200 else status
