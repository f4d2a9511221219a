"""Making calls that survive: capability checks, rounds of questions, repeats after a loss, cached answers.

`Calls` stands between the public methods and the conversation of the moment. One call may take several requests: a
modern server asks back with `input_required` and is asked again with the answers; a connection that is lost under a
call that may be repeated is waited for. The caller sees one result or one failure.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from ...core.questions import check_question
from ...drivers.clock import Clock
from ...errors import (
    INTERNAL_ERROR,
    CapabilityError,
    RemoteProtocolError,
    RequestTimeout,
    SessionLost,
    TransportError,
)
from ...model import InputRequest, InputRequiredResult
from ...model.meta import LOG_LEVEL
from ...settings import Limits, Reconnect, Timeouts
from ...wire.methods import METHODS
from ..answering.answers import Answers
from ..connecting.connect import NOT_SENT, Established
from ..conversation import Conversation
from ..life import Life, delay
from .cache import ResponseCache
from .waiting import OnProgress

_ASKED = {
    "CreateMessageRequest": "sampling/createMessage",
    "ListRootsRequest": "roots/list",
    "ElicitRequest": "elicitation/create",
}
REPEATS = 2
"""How often one call is repeated by itself after a loss."""


class Calls:
    """The way from a method name and params to a result."""

    def __init__(
        self,
        life: Life,
        answers: Answers,
        clock: Clock,
        *,
        timeouts: Timeouts,
        limits: Limits,
        reconnect: Reconnect,
        cache: ResponseCache | None,
        origin: str,
        principal: Callable[[Mapping[str, str] | None], str | None],
    ) -> None:
        self.timeouts = timeouts
        self.established: Established | None = None
        self.log_level: str | None = None
        self.cache = cache
        self.origin = origin
        self._life = life
        self._answers = answers
        self._clock = clock
        self._limits = limits
        self._reconnect = reconnect
        self._principal = principal
        self._offered: set[str] = set()
        """Methods that were found to be offered, so that each is looked up once."""

    def use(self, established: Established) -> None:
        """Make calls on this connection from now on."""
        self.established = established
        self._offered.clear()

    # --- one call -------------------------------------------------------------------------------------------------

    async def call(
        self,
        method: str,
        params: Struct | Raw,
        *,
        timeout: float | Timeouts | None = None,
        on_progress: OnProgress | None = None,
        headers: Mapping[str, str] | None = None,
        repeat: bool = True,
    ) -> Any:
        """Do it all, and return the decoded result.

        ``repeat``: the call does no harm when the server runs it twice.

        Raises:
            CapabilityError: the server does not offer it; nothing was sent.
            DovetailError: everything `Conversation.request` raises.
        """
        limits = whole = self.timeouts if timeout is None else limits_of(timeout, self.timeouts)
        conversation = self._life.conversation
        begun = self._clock.time()
        rounds = repeats = 0
        while True:
            if conversation is None or conversation.gone.done():
                conversation = await self._recovered(limits, accepted=rounds + repeats > 0)
            if method not in self._offered:
                self.require(method)
            meta = None if self.log_level is None else self._log_meta()
            try:
                result = await conversation.request(
                    method, params, limits, meta=meta, on_progress=on_progress, headers=headers
                )
            except TransportError as error:
                repeats += 1
                if not self._may_repeat(error, repeat, repeats):
                    raise self._as_lost(error) from error
                await self._before_repeat(conversation, repeats)
                conversation = None
                limits = self._left(whole, begun, method)
                continue
            if type(result) is not InputRequiredResult:
                return result
            rounds += 1
            timer = asyncio.timeout(self._left(whole, begun, method).total)
            try:
                async with timer:
                    params = await self._next_round(method, params, result, rounds)
            except TimeoutError:
                if not timer.expired():
                    raise  # the application's own
                raise _too_late(method) from None
            limits = self._left(whole, begun, method)

    def _left(self, limits: Timeouts, begun: float, method: str) -> Timeouts:
        """What is left of the limits of a call that takes several requests: its total is for all of them.

        Raises:
            RequestTimeout: nothing is left.
        """
        if limits.total is None:
            return limits
        left = limits.total - (self._clock.time() - begun)
        if left <= 0:
            raise _too_late(method)
        connect = left if limits.connect is None else min(left, limits.connect)
        return Timeouts(connect, limits.idle, left)

    async def _recovered(self, limits: Timeouts, *, accepted: bool) -> Conversation:
        try:
            async with asyncio.timeout(limits.connect):
                return await self._life.recovered(accepted=accepted)
        except TimeoutError:
            raise RequestTimeout(
                f"the connection did not come back within {limits.connect} s", limit="connect"
            ) from None

    def _may_repeat(self, error: TransportError, repeat: bool, repeats: int) -> bool:
        if repeats > REPEATS or not self._life.running or not self._reconnect.enabled:
            return False
        if error.cause == "status":
            return False  # the server did answer; what it said is for the caller
        if error.cause == "session" and isinstance(error, SessionLost) and not error.maybe_executed:
            return True  # it forgot the session before it looked at the request
        return self._reconnect.repeat and repeat and error.cause not in ("closed", "protocol")

    async def _before_repeat(self, conversation: Conversation, repeats: int) -> None:
        if conversation.gone.done():
            return  # the life of the client waits before it connects again
        await self._clock.sleep(delay(self._reconnect, repeats))

    def _as_lost(self, error: TransportError) -> TransportError:
        if isinstance(error, SessionLost) or error.cause in ("status", "protocol", "redirect"):
            return error
        maybe = error.cause not in NOT_SENT
        return SessionLost(error.message, cause=error.cause, maybe_executed=maybe)

    def require(self, method: str) -> None:
        """Check that the server offers ``method``.

        Raises:
            CapabilityError: it does not. Nothing has been sent.
        """
        established = self.established
        row = METHODS.get(method)
        if row is None or established is None or row.sender == "server":
            return
        needed = row.needs(established.revision)
        if needed is not None and not established.capabilities.has(needed):
            raise CapabilityError(needed, f"the server does not offer {needed!r}, which {method} needs")
        self._offered.add(method)

    def _log_meta(self) -> Mapping[str, Any] | None:
        established = self.established
        return (
            {LOG_LEVEL: self.log_level} if established is not None and established.revision.modern else None
        )

    # --- questions ------------------------------------------------------------------------------------------------

    async def _next_round(self, method: str, params: Any, result: InputRequiredResult, rounds: int) -> Struct:
        """The same params with the answers; the state goes back byte for byte."""
        if rounds > self._limits.rounds:
            text = f"{method}: more than {self._limits.rounds} rounds of questions"
            raise RemoteProtocolError("too_many_rounds", text, code=INTERNAL_ERROR)
        requests = result.input_requests or {}
        if not requests:
            if result.request_state is UNSET:
                raise RemoteProtocolError(
                    "validation_failed", "the server asked for input without saying which"
                )
            # The server sheds load: it wants to be asked again, later.
            await self._clock.sleep(min(5.0, 0.1 * 2**rounds))
            return replace(params, input_responses=UNSET, request_state=result.request_state)
        answers = await self.answer_all(requests)
        return replace(params, input_responses=answers, request_state=result.request_state)

    async def answer_all(self, requests: Mapping[str, InputRequest]) -> dict[str, Raw]:
        """Answer all questions at once, each under its key. The first failure ends the others."""
        keys = list(requests)
        if len(keys) == 1:
            found = [await self._answer(requests[keys[0]])]
        else:
            tasks = [asyncio.ensure_future(self._answer(requests[key])) for key in keys]
            try:
                found = await asyncio.gather(*tasks)
            except BaseException:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                raise
        return dict(zip(keys, found, strict=True))

    async def _answer(self, request: InputRequest) -> Raw:
        method = _ASKED[type(request).__name__]
        self._check_mode(method, request.params)
        answer = await self._answers.answer(method, request.params)
        return Raw(msgspec.json.encode(answer))

    def _check_mode(self, method: str, params: Any) -> None:
        if self.established is not None:
            check_question(method, params, self.established.declared)

    # --- cached answers -------------------------------------------------------------------------------------------

    async def cached(
        self,
        method: str,
        params: Struct,
        key: str,
        *,
        timeout: float | Timeouts | None = None,
        headers: Mapping[str, str] | None = None,
        on_progress: OnProgress | None = None,
        fresh: bool = False,
    ) -> Any:
        """`call` for results a modern server lets us keep; ``fresh`` asks the server in any case."""
        cache = self.cache
        established = self.established
        if cache is None or established is None or not established.revision.modern:
            return await self.call(method, params, timeout=timeout, headers=headers, on_progress=on_progress)
        principal = self._principal(headers)
        raw_key = key.encode()
        if not fresh:
            found = cache.get(self.origin, method, raw_key, principal)
            if found is not None:
                return found
        result = await self.call(method, params, timeout=timeout, headers=headers, on_progress=on_progress)
        ttl = cast("float", result.ttl_ms) if isinstance(result.ttl_ms, int | float) else 0
        public = result.cache_scope == "public"
        cache.put(self.origin, method, raw_key, principal, result, ttl_ms=ttl, public=public)
        return result


def _too_late(method: str) -> RequestTimeout:
    return RequestTimeout(f"{method}: no answer came within the total limit", limit="total")


def limits_of(timeout: float | Timeouts, defaults: Timeouts) -> Timeouts:
    """The limits of one call: a number is its total, and then nothing else ends it sooner."""
    if isinstance(timeout, Timeouts):
        return timeout
    return Timeouts(connect=defaults.connect, idle=None, total=timeout)


def principal_of(authorization: str | None) -> str | None:
    """A name for whoever the authorization stands for, that is not the authorization itself."""
    if not authorization:
        return None
    return hashlib.sha256(authorization.encode()).hexdigest()[:32]
