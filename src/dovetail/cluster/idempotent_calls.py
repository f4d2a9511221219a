"""Idempotency: run a tool call once per idempotency key (extension ``io.dovetail/idempotency``).

A client that sends ``_meta["io.dovetail/idempotency-key"]`` with ``tools/call`` may repeat the call on
another connection and to another worker. The tool runs once and all callers get the same result or error. The
store holds one record per principal and key:

* no record: the process that gets the lease writes a pending record, runs the call, and stores its result;
* pending record with a lease: wait for the result;
* pending record without a lease: the process has died and the outcome is unknown. The call runs again only if the
  tool's author declared it repeatable; otherwise it fails with ``call_interrupted``.

The input rounds of one call on 2026-07-28 share the key. Each round is a separate call with its own request
state.
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
from ..model.meta import IDEMPOTENCY_KEY
from ..server.handles import owner
from ..stores.base import Store, StoreError
from ..stores.versioned_records import VersionedRecords
from ..wire.dialects.dialect import error_from_wire, wire_error
from ..wire.seal import digest
from .process_registry import LEASE_LIFETIME, has_ended, process_identity
from .stored_results import results_of
from .stored_steps import is_repeatable, keep_lease

if TYPE_CHECKING:
    from ..server.dispatcher import Dispatcher

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
_NOT_STORED: Final = "The call ran, but its result was too large to be stored"
_NOT_RUN: Final = frozenset({"too_many_tools", "too_many_tasks"})
"""Rejected for lack of capacity, so the call did not run and may be retried."""


class _Record(Struct, omit_defaults=True):
    mark: str
    """Digest of the tool name and the arguments."""
    result: Raw | UnsetType = UNSET
    error: Error | UnsetType = UNSET
    holder: tuple[str, str] | None = None
    """The lease owner, and the identity of its process."""


_records = VersionedRecords(_Record)


class IdempotentCalls:
    """Runs ``tools/call`` requests with an idempotency key at most once."""

    key = IDEMPOTENCY_KEY

    def __init__(
        self, dispatcher: Dispatcher, store: Store, lifetime: float = IDEMPOTENT_RESULT_LIFETIME
    ) -> None:
        self._dispatcher, self._tools = dispatcher, dispatcher.registry.tools.entries
        self._store, self._lifetime = store, lifetime
        self._waiting: Counter[str] = Counter()
        """Callers in this process that wait for a result, by record key."""
        self._results = results_of(store)
        self._running: set[asyncio.Task[Any]] = set()
        self._disconnected = dispatcher.admission.shared.disconnected_requests
        self._requests = dispatcher.admission.shared.requests

    def wrap(self, execute: Next) -> Next:
        """Wrap ``execute`` so that it runs once per key. Calls that become tasks pass `run` before their
        middleware.
        """

        def run(request: Request) -> Awaitable[Struct | Raw]:
            call = request.call
            if call.method != "tools/call" or IDEMPOTENCY_KEY not in call.meta:
                return execute(request)
            if request.task is not None or request.run is not None:
                return execute(request)

            def again(call: Call, channel: Channel) -> Awaitable[Struct | Raw]:
                return execute(replace(request, call=call, channel=channel))

            # The handler checks permissions, but a replay does not reach it.
            self._dispatcher.pipeline.authorize(request)
            return self.run(call, request.channel, again)

        return run

    def run(
        self, call: Call, channel: Channel, respond: Respond, repeat: Repeat | None = None
    ) -> Awaitable[Struct | Raw]:
        """Answer ``call`` with ``respond``, or with the stored answer for its key.

        ``repeat`` receives the stored answer if it still has to pass the middleware.
        """
        key = call.meta.get(IDEMPOTENCY_KEY) if call.method == "tools/call" else None
        if self._dispatcher.lifecycle.inherited_store is not None:
            key = None  # the parent server has a store and handles the key
        return respond(call, channel) if key is None else self._run_once(call, channel, key, respond, repeat)

    async def _run_once(
        self, call: Call, channel: Channel, key: Any, respond: Respond, repeat: Repeat | None
    ) -> Struct | Raw:
        name, mark, me = _record_key(call, _validated_key(key)), _request_digest(call), secrets.token_hex(8)
        while True:
            record = await self._read(name, mark)
            if record is not None and not _is_pending(record):
                kept = partial(_replay, record, call)
                return kept() if repeat is None else await repeat(kept)
            claim = asyncio.create_task(self._claim(name, mark, me, record, call))
            try:
                fence = await asyncio.shield(claim)
            except asyncio.CancelledError:
                await asyncio.wait([claim])
                if not claim.exception() and claim.result():
                    await run_to_completion(self._finish(name, me, None, not_run=True))
                raise
            if fence is None:
                continue  # another caller acquired it first
            if not fence:
                if record is not None and record.holder is not None and has_ended(record.holder[1].encode()):
                    await self._store.lease(name, record.holder[0], 0)  # release the lease of a dead process
                else:
                    await self._wait_for_result(name)
                continue
            attempt = partial(respond, replace(call), channel)
            work = asyncio.create_task(self._execute(attempt, call, name, mark, me, fence))
            self._running.add(work)
            work.add_done_callback(self._running.discard)
            return await self._await_result(work, call, name)

    async def close(self) -> None:
        """Cancel running calls and store that they were interrupted."""
        for work in tuple(self._running):
            work.cancel()
        if self._running:
            await asyncio.wait(self._running)

    async def _claim(self, name: str, mark: str, me: str, record: _Record | None, call: Call) -> int | None:
        """Acquire the lease and write the pending record. Return the fencing number.

        0: another caller runs the call. None: read the record again.
        """
        fence = await self._store.lease(name, me, LEASE_LIFETIME)
        begun: bool | None = None
        try:
            if fence:
                begun = await self._begin(name, mark, me, record, fence, call)
        finally:
            if fence and not begun:
                await self._store.lease(name, me, 0)  # let the next caller acquire it at once
        return fence if begun or not fence else None

    async def _read(self, name: str, mark: str) -> _Record | None:
        data = await self._store.get(name)
        record = None if data is None else _records.decode(data)
        if record is not None and record.mark != mark:
            raise ProtocolError(
                "invalid_params",
                "the idempotency key was already used for a call with other arguments; use a new key",
            )
        return record

    async def _begin(
        self, name: str, mark: str, me: str, record: _Record | None, fence: int, call: Call
    ) -> bool | None:
        """Write the pending record. Return None if another process has started or finished the call."""
        new = _records.encode(_Record(mark, holder=(me, process_identity().decode())))
        if record is None:
            return await self._store.put(name, new, ttl=self._lifetime, only_new=True, fence=fence) or None
        # Results are stored before leases are released: a pending record belongs to a dead process.
        record = await self._read(name, mark)
        if record is None or not _is_pending(record):
            return None
        if not is_repeatable(self._tools.get(call.params.name)):
            raise ProtocolError("call_interrupted", data={"tool": call.params.name})
        return await self._store.put(name, new, ttl=self._lifetime, fence=fence) or None

    # --- execution
    # ----------------------------------------------------------------------------------------------

    async def _execute(
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
            record = None if not_run else _error_record(mark, error, call)
            raise
        finally:
            beat.cancel()
            keep = None if record is None else self._store_result(name, record, fence, call)
            await run_to_completion(self._finish(name, me, keep, not_run=not_run))

    async def _finish(
        self, name: str, me: str, keep: Coroutine[Any, Any, int] | None, *, not_run: bool
    ) -> None:
        """Store the result, release the lease and notify waiting callers."""
        size = 0 if keep is None else await keep
        # An interrupted call is stored as well: its repeats get that error.
        gone = [name] if not_run else self._results.add(name, size)
        try:
            for old in gone:
                await self._store.delete(old)
            await self._store.lease(name, me, 0)
            await self._store.publish(name, b"")
        except StoreError:
            pass  # the lease expires, and waiting callers poll

    async def _store_result(self, name: str, record: _Record, fence: int, call: Call) -> int:
        """Store the outcome and return its size in bytes."""
        data = _records.encode(record)
        if not self._results.fits(len(data)):
            data = _records.encode(
                _error_record(record.mark, ProtocolError("call_interrupted", _NOT_STORED), call)
            )
        try:
            await self._store.put(name, data, ttl=self._lifetime, fence=fence)
        except StoreError as error:
            # The call ran and its caller gets the result; only a repeat gets "outcome unknown".
            log.warning("idempotent result not stored: %s", error.message)
        return len(data)

    # --- waiting and disconnects
    # --------------------------------------------------------------------------------

    async def _await_result(self, work: asyncio.Task[Struct | Raw], call: Call, name: str) -> Struct | Raw:
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            if not work.done():
                self._on_disconnect(work, call, name)
            raise

    def _on_disconnect(self, work: asyncio.Task[Struct | Raw], call: Call, name: str) -> None:
        """Handle the disconnect of the caller.

        On 2026-07-28 over HTTP it may be a lost connection: the call keeps running for a grace period so that
        the client can repeat it.
        """
        work.add_done_callback(_retrieve_exception)
        lost = call.revision.modern and call.scope.get("transport") == "http"
        if lost and self._disconnected.acquire():
            work.add_done_callback(lambda _: self._disconnected.release())
            loop = asyncio.get_running_loop()
            loop.call_later(DISCONNECTED_CALL_GRACE_PERIOD, lambda: self._waiting[name] or work.cancel())
        else:
            # No handler waits for the task now: count it as in flight until it has ended.
            self._requests.in_use += 1
            work.add_done_callback(lambda _: self._requests.release())
            work.cancel()

    async def _wait_for_result(self, name: str) -> None:
        """Wait for a notification that the running call has ended, or for the poll interval."""
        news = asyncio.Event()
        stop = self._store.subscribe(name, lambda _: news.set())
        self._waiting[name] += 1
        try:
            async with asyncio.timeout(IDEMPOTENCY_POLL_INTERVAL):
                await news.wait()
        except TimeoutError:
            pass  # poll the record
        finally:
            stop()
            self._waiting[name] -= 1
            if not self._waiting[name]:
                del self._waiting[name]


def _retrieve_exception(work: asyncio.Task[Struct | Raw]) -> None:
    if not work.cancelled():
        work.exception()  # mark the exception as retrieved


def _error_record(mark: str, error: DovetailError, call: Call) -> _Record:
    code, message, data = wire_error(error, call.revision, call.codec.dialect)
    return _Record(mark, error=Error(code, message, data=data))


def _is_pending(record: _Record) -> bool:
    return record.result is UNSET and record.error is UNSET


def _replay(record: _Record, call: Call) -> Raw:
    error = record.error
    if isinstance(error, Error):
        raise error_from_wire(error.code, error.message, error.data, call.revision, call.codec.dialect)
    assert isinstance(record.result, Raw)
    return record.result


def _validated_key(key: Any) -> str:
    if (
        not isinstance(key, str)
        or not 0 < len(key) <= MAX_IDEMPOTENCY_KEY_LENGTH
        or not all("!" <= letter <= "~" for letter in key)
    ):
        raise ProtocolError(
            "invalid_params",
            f"the idempotency key must be 1 to {MAX_IDEMPOTENCY_KEY_LENGTH} visible ASCII characters",
        )
    return key


def _record_key(call: Call, key: str) -> str:
    params = call.params
    round_ = "" if params.request_state is UNSET else params.request_state
    return f"once/{owner(call.principal)}/{digest([key, round_]).hex()[:48]}"


def _request_digest(call: Call) -> str:
    return f"{digest(call.params.arguments).hex()[:32]} {call.params.name}"
