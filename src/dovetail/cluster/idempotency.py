"""Calls exactly once: the extension ``io.dovetail/idempotency``.

A client that sends ``_meta["io.dovetail/idempotency-key"]`` with ``tools/call`` may send the call again, on another
connection and to another worker: the tool is run once and both get the same answer, an error too. What happens is kept
in the store under the principal and the key:

* nothing yet: whoever gets the lease notes that the call has begun, runs it, and keeps its result;
* begun, and somebody holds the lease: wait for the result;
* begun, and nobody holds the lease: whoever ran it is dead. Whether it was done nobody knows, so it is not done again
  unless its author says that this does no harm; the caller is told (``call_interrupted``).

The rounds of one call on 2026-07-28 share the key; each is a call of its own, told apart by the state it brings.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from ..core.channel import Call, Channel
from ..drivers.middleware_chain import Next, Request, Respond
from ..drivers.shielding import run_to_completion
from ..errors import DovetailError, ProtocolError, Refusal
from ..model import Error
from ..model.meta import IDEMPOTENCY_EXTENSION, IDEMPOTENCY_KEY
from ..server.handles import owner
from ..stores.base import Store, StoreError
from ..stores.versioned_records import VersionedRecords
from ..wire.dialects.dialect import error_from_wire, wire_error
from ..wire.seal import digest
from .process_registry import LEASE_LIFETIME, ended, passport
from .stored_results import results_of
from .stored_steps import harmless, keep_lease

if TYPE_CHECKING:
    from ..server.server import Server

IDEMPOTENT_RESULT_LIFETIME: Final = 86_400.0
"""How long the result of a call with an idempotency key is stored."""
MAX_IDEMPOTENCY_KEY_LENGTH: Final = 128
"""Characters of an idempotency key."""
IDEMPOTENCY_POLL_INTERVAL: Final = 1.0
"""Interval at which a duplicate call polls the first one, in case its notification is lost."""
DISCONNECTED_CALL_GRACE_PERIOD: Final = 10.0
"""How long an idempotent call keeps running after its connection is lost, if no client repeats it."""


log = logging.getLogger("dovetail.server")

Repeat = Callable[[Callable[[], Raw]], Awaitable[Struct | Raw]]
_NOT_KEPT: Final = "The call was made, but its result was too large to be kept"
_NOT_RUN: Final = frozenset({"too_many_tools", "too_many_tasks"})
"""Refused for want of room: the next try may find some."""


class _Record(Struct, omit_defaults=True):
    mark: str
    """Which tool with which arguments."""
    result: Raw | UnsetType = UNSET
    error: Error | UnsetType = UNSET
    holder: tuple[str, str] | None = None
    """Who is at it: the owner of the lease, and the passport of its process."""


_records = VersionedRecords(_Record)


class IdempotentCalls:
    """What ``tools/call`` of a server with a store goes through."""

    key = IDEMPOTENCY_KEY

    def __init__(self, server: Server, store: Store) -> None:
        self._server, self._tools = server, server.register.tools.entries
        self._store = store
        self._waiting: Counter[str] = Counter()
        """How many wait here for the call under this name."""
        self._results = results_of(store)
        self._under_way: set[asyncio.Task[Any]] = set()
        self._abandoned = server.admission.shared.disconnected_requests
        self._requests = server.admission.shared.requests
        server.add_capability(f"extensions.{IDEMPOTENCY_EXTENSION}")

    def around(self, execute: Next) -> Next:
        """``execute``, once for each key. What becomes a task has passed `run` before its chain."""

        def run(request: Request) -> Awaitable[Struct | Raw]:
            call = request.call
            if call.method != "tools/call" or IDEMPOTENCY_KEY not in call.meta:
                return execute(request)
            if request.task is not None or request.run is not None:
                return execute(request)

            def again(call: Call, channel: Channel) -> Awaitable[Struct | Raw]:
                return execute(replace(request, call=call, channel=channel))

            # The handler checks the rights, but a repeat does not get there.
            self._server.pipeline.authorize(request)
            return self.run(call, request.channel, again)

        return run

    def run(
        self, call: Call, channel: Channel, respond: Respond, repeat: Repeat | None = None
    ) -> Awaitable[Struct | Raw]:
        """Answer ``call`` with ``respond``, or with what was answered under its key before.

        ``repeat`` gets that answer instead of the caller, where it has not passed the middleware yet.
        """
        key = call.meta.get(IDEMPOTENCY_KEY) if call.method == "tools/call" else None
        if self._server.inherited_store is not None:
            key = None  # a server around this one, which has a store, has seen to it
        return respond(call, channel) if key is None else self._once(call, channel, key, respond, repeat)

    async def _once(
        self, call: Call, channel: Channel, key: Any, respond: Respond, repeat: Repeat | None
    ) -> Struct | Raw:
        name, mark, me = _name(call, _checked(key)), _mark(call), secrets.token_hex(8)
        while True:
            record = await self._read(name, mark)
            if record is not None and not _open(record):
                kept = partial(_answer, record, call)
                return kept() if repeat is None else await repeat(kept)
            claim = asyncio.create_task(self._claim(name, mark, me, record, call))
            try:
                fence = await asyncio.shield(claim)
            except asyncio.CancelledError:
                await asyncio.wait([claim])
                if not claim.exception() and claim.result():
                    await run_to_completion(self._settle(name, me, None, not_run=True))
                raise
            if fence is None:
                continue  # somebody was faster
            if not fence:
                if record is not None and record.holder is not None and ended(record.holder[1].encode()):
                    await self._store.lease(name, record.holder[0], 0)  # the dead need it no more
                else:
                    await self._until_news(name)
                continue
            attempt = partial(respond, replace(call), channel)
            work = asyncio.create_task(self._work(attempt, call, name, mark, me, fence))
            self._under_way.add(work)
            work.add_done_callback(self._under_way.discard)
            return await self._attend(work, call, name)

    async def close(self) -> None:
        """End what is under way, and see to it that this is known."""
        for work in tuple(self._under_way):
            work.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way)

    async def _claim(self, name: str, mark: str, me: str, record: _Record | None, call: Call) -> int | None:
        """Take the call and note that it begins: our fence. 0: somebody is at it; None: it is to be read again."""
        fence = await self._store.lease(name, me, LEASE_LIFETIME)
        begun: bool | None = None
        try:
            if fence:
                begun = await self._begin(name, mark, me, record, fence, call)
        finally:
            if fence and not begun:
                await self._store.lease(name, me, 0)  # the next one need not wait for it
        return fence if begun or not fence else None

    async def _read(self, name: str, mark: str) -> _Record | None:
        data = await self._store.get(name)
        record = None if data is None else _records.decode(data)
        if record is not None and record.mark != mark:
            raise ProtocolError(
                "invalid_params", "the idempotency key stands for a call with other arguments"
            )
        return record

    async def _begin(
        self, name: str, mark: str, me: str, record: _Record | None, fence: int, call: Call
    ) -> bool | None:
        """Note that the call begins; None when it has meanwhile begun or ended elsewhere."""
        new = _records.encode(_Record(mark, holder=(me, passport().decode())))
        if record is None:
            return (
                await self._store.put(name, new, ttl=IDEMPOTENT_RESULT_LIFETIME, only_new=True, fence=fence)
                or None
            )
        # Results are kept before leases are given back: what is open now was left by the dead.
        record = await self._read(name, mark)
        if record is None or not _open(record):
            return None
        if not harmless(self._tools.get(call.params.name)):
            raise ProtocolError("call_interrupted", data={"tool": call.params.name})
        return await self._store.put(name, new, ttl=IDEMPOTENT_RESULT_LIFETIME, fence=fence) or None

    # --- working ------------------------------------------------------------------------------------------------

    async def _work(
        self,
        attempt: Callable[[], Awaitable[Struct | Raw]],
        call: Call,
        name: str,
        mark: str,
        me: str,
        fence: int,
    ) -> Struct | Raw:
        beat = asyncio.create_task(keep_lease(self._store, name, me))
        record, not_run = None, False
        try:
            result = await attempt()
            kept = result if isinstance(result, Raw) else call.codec.prepare(result)
            record = _Record(mark, result=kept)
            return result
        except DovetailError as error:
            not_run = isinstance(error, Refusal) or error.kind in _NOT_RUN
            record = None if not_run else _failed(mark, error, call)
            raise
        finally:
            beat.cancel()
            keep = None if record is None else self._keep(name, record, fence, call)
            await run_to_completion(self._settle(name, me, keep, not_run=not_run))

    async def _settle(
        self, name: str, me: str, keep: Coroutine[Any, Any, int] | None, *, not_run: bool
    ) -> None:
        """Keep what came of it, then let others at it."""
        size = 0 if keep is None else await keep
        # One that was cut short says so to its repeats: that, too, is kept.
        gone = [name] if not_run else self._results.add(name, size)
        try:
            for old in gone:
                await self._store.delete(old)
            await self._store.lease(name, me, 0)
            await self._store.publish(name, b"")
        except StoreError:
            pass  # the lease runs out by itself, and those who wait look now and then

    async def _keep(self, name: str, record: _Record, fence: int, call: Call) -> int:
        """Write what came of it; how many bytes that took."""
        data = _records.encode(record)
        if not self._results.fits(len(data)):
            data = _records.encode(_failed(record.mark, ProtocolError("call_interrupted", _NOT_KEPT), call))
        try:
            await self._store.put(name, data, ttl=IDEMPOTENT_RESULT_LIFETIME, fence=fence)
        except StoreError as error:
            # It was done, and its caller is told so; only a repeat will hear that nobody knows.
            log.warning("the result of a call was not kept: %s", error.message)
        return len(data)

    # --- waiting ------------------------------------------------------------------------------------------------

    async def _attend(self, work: asyncio.Task[Struct | Raw], call: Call, name: str) -> Struct | Raw:
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            if not work.done():
                self._leave(work, call, name)
            raise

    def _leave(self, work: asyncio.Task[Struct | Raw], call: Call, name: str) -> None:
        """Who asked is gone. On 2026-07-28 over HTTP that may be a lost connection: then the client comes back."""
        work.add_done_callback(_ended)
        lost = call.revision.modern and call.scope.get("transport") == "http"
        if lost and self._abandoned.acquire():
            work.add_done_callback(lambda _: self._abandoned.release())
            loop = asyncio.get_running_loop()
            loop.call_later(DISCONNECTED_CALL_GRACE_PERIOD, lambda: self._waiting[name] or work.cancel())
        else:
            # The runner does not wait for it: it counts here until its handler has ended.
            self._requests.in_use += 1
            work.add_done_callback(lambda _: self._requests.release())
            work.cancel()

    async def _until_news(self, name: str) -> None:
        """Wait until the one under way may have ended."""
        news = asyncio.Event()
        stop = self._store.subscribe(name, lambda _: news.set())
        self._waiting[name] += 1
        try:
            async with asyncio.timeout(IDEMPOTENCY_POLL_INTERVAL):
                await news.wait()
        except TimeoutError:
            pass  # it is looked at again
        finally:
            stop()
            self._waiting[name] -= 1
            if not self._waiting[name]:
                del self._waiting[name]


def _ended(work: asyncio.Task[Struct | Raw]) -> None:
    if not work.cancelled():
        work.exception()  # somebody else is told, or nobody


def _failed(mark: str, error: DovetailError, call: Call) -> _Record:
    code, message, data = wire_error(error, call.revision, call.codec.dialect)
    return _Record(mark, error=Error(code, message, data=data))


def _open(record: _Record) -> bool:
    return record.result is UNSET and record.error is UNSET


def _answer(record: _Record, call: Call) -> Raw:
    error = record.error
    if isinstance(error, Error):
        raise error_from_wire(error.code, error.message, error.data, call.revision, call.codec.dialect)
    assert isinstance(record.result, Raw)
    return record.result


def _checked(key: Any) -> str:
    if (
        not isinstance(key, str)
        or not 0 < len(key) <= MAX_IDEMPOTENCY_KEY_LENGTH
        or not all("!" <= letter <= "~" for letter in key)
    ):
        raise ProtocolError(
            "invalid_params",
            f"an idempotency key has 1 to {MAX_IDEMPOTENCY_KEY_LENGTH} visible ASCII characters",
        )
    return key


def _name(call: Call, key: str) -> str:
    params = call.params
    round_ = "" if params.request_state is UNSET else params.request_state
    return f"once/{owner(call.principal)}/{digest([key, round_]).hex()[:48]}"


def _mark(call: Call) -> str:
    return f"{digest(call.params.arguments).hex()[:32]} {call.params.name}"
