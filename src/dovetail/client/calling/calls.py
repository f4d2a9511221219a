"""`Calls`: reliable calls: capability checks, input rounds, retries after a disconnect, caching and paging.

`Calls` connects the public methods with the current conversation. One call may need several requests: a
modern server returns `input_required` and is called again with the responses; a repeatable call waits for a
lost connection. The caller gets one result or one error.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from math import inf
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from ...drivers.requests import SendOptions
from ...errors import (
    INTERNAL_ERROR,
    CapabilityError,
    DovetailError,
    ProtocolError,
    Refusal,
    RemoteProtocolError,
    RequestTimeout,
    SessionLost,
    StateError,
    TransportError,
)
from ...model import InputRequest, InputRequiredResult, PaginatedRequestParams, ReadResourceResult
from ...settings import Timeouts
from ...wire.methods import METHODS, Method
from ..client_config import CachedOptions, CallOptions, ClientConfig, Headers, Timeout
from ..connecting.client_connection import Connections
from ..connecting.connect import NOT_SENT, Established
from ..conversation import Conversation
from ..http_client import StatusError
from ..reconnect import ConnectionLifecycle, delay
from ..server_requests.callbacks import Answers, call_back

SHED_SECONDS: Final = 5.0
"""Longest delay in seconds before retrying a server that sheds load."""
SHORTEST_RETRY: Final = 0.1
"""Shortest delay in seconds between two attempts."""


CALL_REPEATS: Final = 2
"""Retries of one call after a lost connection."""
REFUSAL_REPEATS: Final = 5
"""Retries of one call that the server refused with a retry delay."""
LIST_PAGES: Final = 1000
LIST_ENTRIES: Final = 1_000_000
"""Entries of one list, all pages together."""
UNREACHED_SECONDS: Final = 3.0
"""Seconds for which a call is retried in any case if no reconnect is limited."""

_NO_OPTIONS: CallOptions = {}
PLAIN: SendOptions = {}


class Calls:
    """Executes calls, from method name and params to the result."""

    def __init__(
        self, config: ClientConfig, life: ConnectionLifecycle, connections: Connections, answers: Answers
    ) -> None:
        self.config = config
        self._life = life
        self._connections = connections
        self._answers = answers
        self._clock = config.clock
        self._timeouts = config.timeouts

    @property
    def established(self) -> Established:
        """Return the connection and what its server declared.

        Raises:
            StateError: the client was never connected.
        """
        established = self._connections.established
        if established is None:
            raise StateError("the client was never connected")
        return established

    # --- one call -------------------------------------------------------------------------------------------------

    async def call(
        self,
        method: str,
        params: Struct | Raw,
        options: CallOptions = _NO_OPTIONS,
        *,
        known: frozenset[str] = CallOptions.__optional_keys__,
        repeat: bool = True,
        row: Method | None = None,
        place: tuple[str, str, bytes, str] | None = None,
        quiet: bool = False,
    ) -> Any:
        """Execute a call and return the decoded result.

        ``known``: the allowed options. ``repeat``: the server may run the call twice. ``row`` describes an
        extension method, ``place`` is the cache key. A ``quiet`` call requests progress only if a callback is
        set.

        Raises:
            CapabilityError: the server does not support it; nothing was sent. Also as `Requests.request`.
        """
        timeout = options.get("timeout")
        limits = whole = self._timeouts if timeout is None else self.config.limits_of(timeout)
        asking: SendOptions = _asking(options, known, row) if options or row is not None else PLAIN
        if quiet:
            asking = {**asking, "quiet": True}
        conversation = self._life.conversation
        begun = self._clock.time()
        rounds = repeats = refusals = 0
        while True:
            if conversation is None or conversation.gone.done():
                conversation = await self._recovered(limits, accepted=rounds + repeats > 0)
                limits = self._left(whole, begun, method)
            established = self._connections.established
            if established is None or method not in established.offered:
                self._require(method, row)
            try:
                result = await conversation.request(method, params, limits, **asking)
            except (ProtocolError, Refusal, StatusError) as error:
                self.explain(error)
                refusals += 1
                await self._wait_as_told(error, limits, repeat, refusals)
            except TransportError as error:
                repeats += 1
                await self._before_repeat(error, conversation, repeat, repeats, begun)
                conversation = None
            else:
                if type(result) is not InputRequiredResult:
                    if rounds:  # the request state is valid for these responses only
                        conversation.requests.asked = True
                    elif place is not None:
                        self._keep(place, result)
                    return result
                rounds += 1
                left = self._left(whole, begun, method)
                params = await self._next_round(method, params, result, rounds, left)
            limits = self._left(whole, begun, method)

    def explain(self, error: DovetailError) -> None:
        """Set a failed callback as the cause of the call that has just failed with ``error``."""
        requests = self.established.conversation.requests
        failed, requests.failed = requests.failed, None
        if failed is not None and error.__cause__ is None:
            error.__cause__ = failed

    async def forward(
        self, method: str, params: Struct | Raw, asking: SendOptions, timeout: Timeout, *, repeat: bool
    ) -> Any:
        """Send one request for another client. Return the response, also an input request.

        Raises: as `call`.
        """
        limits = self._timeouts if timeout is None else self.config.limits_of(timeout)
        begun, repeats = self._clock.time(), 0
        while True:
            conversation = self._life.conversation
            if conversation is None or conversation.gone.done():
                conversation = await self._recovered(limits, accepted=repeats > 0)
            established = self._connections.established
            if established is None or method not in established.offered:
                self._require(method, None)
            try:
                return addressed(await conversation.request(method, params, limits, **asking), params)
            except TransportError as error:
                repeats += 1
                await self._before_repeat(error, conversation, repeat, repeats, begun)

    def _left(self, limits: Timeouts, begun: float, method: str) -> Timeouts:
        """Return the remaining timeouts of a call with several requests: the total covers all of them.

        Raises:
            RequestTimeout: no time remains.
        """
        if limits.total is None:
            return limits
        left = limits.total - (self._clock.time() - begun)
        if left <= 0:
            raise _too_late(method)
        connect = left if limits.connect is None else min(left, limits.connect)
        return Timeouts(connect, limits.idle, left)

    async def _recovered(self, limits: Timeouts, *, accepted: bool) -> Conversation:
        named = [("connect", limits.connect), ("total", limits.total)]
        limit, seconds = min(named, key=lambda one: inf if one[1] is None else one[1])
        try:
            async with asyncio.timeout(seconds):
                return await self._life.recovered(accepted=accepted)
        except TimeoutError:
            text = f"the connection did not come back within {seconds} s"
            raise RequestTimeout(text, limit=limit) from None

    async def _wait_as_told(
        self, error: ProtocolError | Refusal | StatusError, limits: Timeouts, repeat: bool, refusals: int
    ) -> None:
        """Wait for the retry delay of a server that refused a call.

        Raises:
            ProtocolError, Refusal, StatusError: no delay was given, it is too long, or the call is not repeatable.
        """
        wait, reconnect = error.retry_after, self.config.reconnect
        longest = SHED_SECONDS if limits.total is None else min(SHED_SECONDS, limits.total)
        if wait is None or wait > longest or refusals > REFUSAL_REPEATS or not self._life.running:
            raise error
        if not (repeat and reconnect.enabled and reconnect.retry_calls):
            raise error
        # Add jitter, so that refused callers do not retry at the same time.
        await self._clock.sleep(max(wait, SHORTEST_RETRY) * (1 + random.random() * reconnect.jitter))

    async def _before_repeat(
        self, error: TransportError, conversation: Conversation, repeat: bool, repeats: int, begun: float
    ) -> None:
        """Wait until a lost call can be retried.

        Raises:
            TransportError: it is not repeatable.
        """
        if not self._may_repeat(error, repeat, repeats, begun):
            raise _as_lost(error) from error
        if not conversation.gone.done():  # otherwise the reconnect applies its own delay
            await self._clock.sleep(delay(self.config.reconnect, repeats))

    def _may_repeat(self, error: TransportError, repeat: bool, repeats: int, begun: float) -> bool:
        reconnect = self.config.reconnect
        if not self._life.running or not reconnect.enabled:
            return False
        away = error.cause == "refused" and self._clock.time() - begun < UNREACHED_SECONDS
        if repeats > CALL_REPEATS and not away:
            return False
        if error.cause == "status":
            return False  # the server responded: the caller handles it
        if error.cause == "session" and repeats > 1:
            return False  # the server would forget the new session too
        if error.cause == "session" and isinstance(error, SessionLost) and not error.maybe_executed:
            return True  # the session was unknown, so the request was not executed
        return reconnect.retry_calls and repeat and error.cause not in ("closed", "protocol")

    def _require(self, method: str, own: Method | None) -> None:
        """Check that the server supports ``method``."""
        row = METHODS.get(method) or own
        if row is None or row.sender == "server":
            return
        established = self.established
        needed = row.needs(established.revision)
        if needed is not None and not established.capabilities.has(needed):
            raise CapabilityError(needed, f"the server does not offer {needed!r}, which {method} needs")
        if row is not own:  # each call of an extension method may need another capability
            established.offered.add(method)

    # --- input requests
    # ---------------------------------------------------------------------------------------------------

    async def _next_round(
        self, method: str, params: Any, result: InputRequiredResult, rounds: int, limits: Timeouts
    ) -> Struct:
        """Return the params with the responses. The request state is returned unchanged."""
        if rounds > self.config.limits.max_input_rounds:
            text = f"{method}: more than {self.config.limits.max_input_rounds} rounds of questions"
            raise RemoteProtocolError("too_many_rounds", text, code=INTERNAL_ERROR)
        requests, state = result.input_requests or {}, result.request_state
        if not requests and state is UNSET:
            raise RemoteProtocolError("validation_failed", "the server asked for input without saying which")
        answers: Any = UNSET
        try:
            async with asyncio.timeout(limits.total):
                if requests:
                    answers = await self.answer_all(requests)
                else:
                    # Load shedding of the server: retry later.
                    await self._clock.sleep(min(SHED_SECONDS, 0.1 * 2**rounds))
        except TimeoutError:
            raise _too_late(method) from None
        return replace(params, input_responses=answers, request_state=state)

    async def answer_all(self, requests: Mapping[str, InputRequest]) -> dict[str, Raw]:
        """Return the application's responses by key.

        Raises:
            RemoteProtocolError: the server requested too many at once.
        """
        if len(requests) > (most := self.config.limits.max_requests_per_connection):
            text = f"the server asks {len(requests)} questions at once; at most {most} are answered"
            raise RemoteProtocolError("validation_failed", text)
        return await self._answers.answer_all(requests, self.established.declared)

    # --- caching and paging
    # -----------------------------------------------------------------------------------------------

    async def cached(self, method: str, params: Struct, key: str, options: CachedOptions) -> Any:
        """Execute `call` with the cache; ``fresh`` skips it."""
        cache, established = self.config.cache, self._connections.established
        place = None
        if cache is not None and established is not None and established.revision.modern:
            place = (self.config.origin, method, key.encode(), self._principal(options.get("headers")))
            if not options.get("fresh") and (found := cache.get(*place)) is not None:
                return found
        return await self.call(method, params, options, known=CachedOptions.__optional_keys__, place=place)

    def _keep(self, place: tuple[str, str, bytes, str], result: Any) -> None:
        cache, public = self.config.cache, result.cache_scope == "public"
        if cache is not None and isinstance(result.ttl_ms, int | float) and result.ttl_ms > 0:
            cache.put(*place, result, ttl_ms=result.ttl_ms, public=public)

    def _principal(self, headers: Headers) -> str:
        """Return the owner of a private cache entry: the hashed credentials of the request, or this client.

        Any header of a call may be a credential (an API key, a cookie), so it is part of the owner.
        """
        config = self.config
        own = {name.lower(): value for name, value in (headers or {}).items()}
        given = {**{name.lower(): value for name, value in config.headers.items()}, **own}
        if config.auth is None and "authorization" in given:
            # Only these headers identify the user, so clients with equal ones share private entries.
            return _hashed("headers", given)
        return config.cache_owner if not own else _hashed(config.cache_owner, own)

    async def list_all(self, method: str, member: str, options: CachedOptions) -> list[Any]:
        """Return all pages of a list."""

        async def page(cursor: Any) -> Any:
            key = "" if cursor is UNSET else f"cursor={cursor}"
            return await self.cached(method, PaginatedRequestParams(cursor=cursor), key, options)

        try:
            return await follow(page, member)
        except ProtocolError as error:
            expired = error.kind in ("invalid_params", "invalid_cursor", "cursor_expired")
            ours = isinstance(error, RemoteProtocolError)  # raised by `follow`, not by the server
            if not expired or ours or self.config.cache is None or options.get("fresh"):
                raise
            # The cursor of a cached page has expired: clear the cached pages and start over.
            self.config.cache.forget(self.config.origin, method)
            return await follow(page, member)

    async def pages(
        self, method: str, member: str, params: Callable[..., Struct], options: CallOptions
    ) -> list[Any]:
        """Return all pages of an uncached list; ``params`` creates the params from a ``cursor``."""
        return await follow(lambda cursor: self.call(method, params(cursor=cursor), options), member)


async def follow(page: Callable[[Any], Awaitable[Any]], member: str) -> list[Any]:
    """Fetch pages until one has no ``nextCursor``. An empty cursor is valid.

    Raises:
        RemoteProtocolError: the pages repeat, or exceed the limit.
    """
    found: list[Any] = []
    seen: set[str] = set()
    cursor: Any = UNSET
    entries = attrgetter(member)
    for _ in range(LIST_PAGES):
        result = await page(cursor)
        found.extend(entries(result))
        cursor = result.next_cursor
        if cursor is UNSET or cursor is None:
            return found
        if cursor in seen:
            raise RemoteProtocolError("invalid_cursor", "the server's pages go round in a circle")
        if len(found) > LIST_ENTRIES:
            break
        seen.add(cursor)
    raise RemoteProtocolError(
        "invalid_cursor", f"the list has more than {LIST_PAGES} pages or too many entries"
    )


def addressed(result: Any, params: Any) -> Any:
    """Add the requested URI to contents without one: erlmcp's servers omit it."""
    if type(result) is ReadResourceResult:
        for contents in result.contents:
            contents.uri = contents.uri or params.uri
    return result


def _asking(options: CallOptions, known: frozenset[str], row: Method | None) -> SendOptions:
    """Convert the options of a call to those of a request.

    Raises:
        TypeError: an option is unknown.
    """
    if unknown := options.keys() - known:
        raise TypeError(f"there is no option {min(unknown)!r} here; there are {', '.join(sorted(known))}")
    on_progress = options.get("on_progress")
    asking: SendOptions = {
        "meta": options.get("meta"),
        "headers": options.get("headers"),
        "on_progress": None if on_progress is None else partial(call_back, on_progress),
        "row": row,
    }
    return {**asking, "came": options["came"]} if "came" in options else asking


def _hashed(first: str, headers: Mapping[str, str]) -> str:
    return hashlib.sha256(msgspec.json.encode([first, sorted(headers.items())])).hexdigest()


def _too_late(method: str) -> RequestTimeout:
    return RequestTimeout(f"{method}: no answer came within the total limit", limit="total")


def _as_lost(error: TransportError) -> TransportError:
    if isinstance(error, SessionLost) or error.cause in ("status", "protocol", "redirect"):
        return error
    return SessionLost(error.message, cause=error.cause, maybe_executed=error.cause not in NOT_SENT)
